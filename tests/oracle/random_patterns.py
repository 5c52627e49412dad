"""Random regular expressions, many of them not well-formed: what the parser of structured output accepts, Python's re
must accept too and match alike. The same seed gives the same patterns on every Python."""
import random
import re
import warnings

PARTS = ["a", "b", "a", "b", ".", "-", ",", "1", "2", "{", "}", "{", "}", "{2}", "{1,}", "{,2}", "{1,2}", "{2,1}", "{,}", "(", ")", "(",
         ")", "(?:", "(?<n>", "(?P<n>", "(?=", "[", "]", "[", "]", "[^", "|", "*", "+", "?", "^", "$", "\\", "\\d", "\\w", "\\s", "\\D",
         "\\W", "\\S", "\\-", "\\.", "\\{", "\\n", "\\0", "\\b", "\\1", "\\x41", "\\u0041", "\\u{41}", "\\ud83d\\ude00", "\\cA", "\\A", "\\Z",
         "\\é", "é", "😀", "&&", "--", "[:"]


def patterns(seed, count):
    draw = random.Random(seed).random
    made = []
    while len(made) < count:
        pattern = "".join(PARTS[int(draw() * len(PARTS))] for _ in range(1 + int(draw() * 7)))
        # Mostly such as open and close evenly: few others are accepted.
        if pattern.count("(") == pattern.count(")") and pattern.count("[") <= pattern.count("]") or draw() < 0.1:
            made.append(pattern)
    return made


def wrong(pattern, whole, answer):
    """What Python makes of the texts drawn for a pattern, where that is not a match. whole: of the whole text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of what a later Python may read otherwise
            compiled = re.compile(pattern)
    except re.error as error:
        yield f"Python's re refuses the pattern: {error}"
        return
    for text in answer["texts"][:answer["whole"]]:
        if not (compiled.fullmatch if whole else compiled.search)(text):
            yield f"no match of {text!r}"
