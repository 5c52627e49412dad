// Ingot's own: what the two mended files of xgrammar call on their way (cmake/xgrammar.cmake), so
// that long work can be ended. Both may throw.
#pragma once

namespace xgrammar {

// Before each byte that is tried for a mask made for the first time, which all sequences share.
// Nothing is half done there: the mask is made again when it is wanted again.
void NoteMaskMaking();
// Before each byte that is tried for the mask of one sequence. Its matcher is of no use when this
// throws.
void NoteMatching();

}  // namespace xgrammar
