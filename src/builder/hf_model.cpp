#include "builder/hf_model.h"

namespace ingot {

void read_hf_model(HfConfig& config, Checkpoint& c) {
  const auto architectures =
      config.find_texts("architectures").value_or(std::vector<std::string>{});
  if (architectures.size() != 1) config.refuse("architectures", "must name one architecture");
  // Some multi-modal families keep the decoder's keys one level down.
  const auto text_config = config.find_child("text_config");
  c.family = &family_for_architecture(architectures[0]);
  c.config = c.family->from_hf(text_config ? *text_config : config);
  c.config.architecture = architectures[0];
  c.config.family = c.family->name;
}

}  // namespace ingot
