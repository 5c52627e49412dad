// Writes the seeds of tests/fuzz/engine_file_fuzz.cc: the tables of tiny engines, manifest and blob
// table a line each, which the target gives a header with right checksums.
//   engine_seeds tests/fixtures tests/fuzz/corpus/engine_file
#include "passes/pass.h"

#include "tests/plan/tiny_engine.h"
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: engine_seeds FIXTURES FOLDER\n", stderr);
    return 2;
  }
  std::vector<std::string> all;
  for (const ingot::Pass& pass : ingot::pipeline()) all.emplace_back(pass.name);
  for (const bool plain : {false, true}) {
    const ingot::test::TinyEngine tiny(argv[1],
                                       {.skip_passes = plain ? all : std::vector<std::string>{}});
    ingot::EngineInfo info = tiny.model.info;
    info.name = "tiny";  // not that of a folder which is gone
    info.source = "seed";
    const ingot::Json manifest = {{"info", to_json(info)},
                                  {"plan", to_json(tiny.model.compiled.plan)}};
    std::ofstream out(std::string(argv[2]) + (plain ? "/plain" : "/fused"));
    out << ingot::dump_json(manifest) << "\n[]";
    if (!out.flush()) {
      std::perror(argv[2]);
      return 6;
    }
  }
  return 0;
}
