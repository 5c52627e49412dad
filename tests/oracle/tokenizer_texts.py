"""Texts that tokenizers disagree on, and the text that the small vocabularies are trained on."""

TEXTS = [
    "", " ", "  ", "\n", "Hello, world!", "hello  world   ", "  leading and trailing  ", "a    b", "Hi. It's",
    "\tTabs\tand\n\nnewlines\r\nand CRLF\r\n\r\nend", "  \n  \n x", "\n\n\n   text\n   ", " \r\n\t \n",
    "don't we'll I'M THEY'RE it\u2019s y'all", "'quoted' \"double\" ''", "12345 1,234.56 007 3rd",
    "\u00bd 4\u00bd \u00b2\u00b3 \u2167 \u0663\u0664\u0665 \u4e00\u4e8c\u4e09", "na\u00efve caf\u00e9 cafe\u0301 e\u0301",
    "\u1112\u1161\u11ab\u1100\u116e\u11a8\u110b\u1165 \u1100\u1161\u11a8", "\u00aa\u0300 a\u0300", "word\u1fbd word",
    "\u00a0you\u2026\u00a0\u00a0", "you\u00a0\u00a0 and me", "\u5168\u89d2\u3000\u7a7a\u767d",
    "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8\u3001\u4e2d\u6587\u6587\u672c\u3002\ud55c\uad6d\uc5b4 \ud14d\uc2a4\ud2b8",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u0439 \u0438\u0306", "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645", "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u0398\u03ac\u03bb\u03b1\u03c3\u03c3\u03b1 \u03a3\u0391\u03a3",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f44d\U0001f3fd \U0001f3f3\ufe0f\u200d\U0001f308 \U0001f642",
    "for (int i=0; i<n; ++i) {\n\tx[i] += 2;\n    y->z();\n}\n", "def f(x):\n    return x**2  # square\n",
    "https://example.com/a?b=c&d=%20#e", "snake_case CamelCase HTTPServer iPhone15Pro XMLHttp", "!!!???...\u2014\u2013 -- (a) [b] {c} $5 50% a+b=c ^~`|",
    "\u200bzero\u200bwidth\ufeff \u00adsoft", "\ufb01 \ufb02 \u212b \u2126 \u337f \u216b \u2460 \uff21\uff22\uff43", "\u0130stanbul \u01c5 \u00df \u1e9e \u0149",
    "\u0000\u0001 control \u007f\u0085 \ufffd", "x\u2028y\u2029z\u000bw\u000cv", "a\u0300\u0301\u0302b\u0327\u0301", "\u2581already\u2581there \u2581", "\u2581", " \u2581 x",
    "<0x41> literal", "\u0120byte \u010a", "##ing un##do un@@ known</w>", "\U0001d4b3 \U00010348 \U0001f701", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "=====-----_____", "the theme there then", "unbelievable lowest newest", "\u0e33\u0eb3 \u0d4a \u0958", "A\u030a \u1e9b\u0323 \u3131 \uac00\u11a8",
]

# One long run of one class, and a long word, as (unit, count, suffix): a splitter must not recurse or go quadratic.
LONG = [("A", 5000, ""), ("\n", 3000, ""), ("us", 800, ""), (" ", 4000, "x"), ("\u4e2d", 300, ""), ("!", 3000, ""),
        ("\u0301", 300, ""), ("1", 2001, ""), ("A", 30000, " b"), ("\n", 30000, "b")]

CORPUS = """The lowest tide of the newest year came early, and the lower harbour was dry before the boats could leave.
There are three things that they wanted then: the theme, the weather and the other letters of the alphabet.
Hello, world! Hello there, hello again. Is it what you want? It's not, they're not, we'll see, I'm here, don't go.
for (int i = 0; i < n; ++i) { x[i] += 2; y->z(); return x; } def f(x): return x  # the square of the number
Numbers: 1, 12, 123, 1234, 12345 and 2026; 50% of $100 is 50.  Spaces    and	tabs   are    here too.
Unbelievable! Unlikely, undo, redo, doing, going, knowing, reading, writing, thinking and walking.
\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8\u3068\u4e2d\u6587\u6587\u672c\u3001\ud55c\uad6d\uc5b4 \ud14d\uc2a4\ud2b8. \u65e5\u672c \u65e5\u672c \u4e2d\u6587 \u4e2d\u6587.
\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u041c\u0438\u0440 \u0438 \u0442\u0440\u0443\u0434. caf\u00e9 na\u00efve caf\u00e9 \u00fcber \u00e9t\u00e9 gar\u00e7on. \U0001f642 \U0001f642 \U0001f44d
\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645 \u0928\u092e\u0938\u094d\u0924\u0947 \u0398\u03ac\u03bb\u03b1\u03c3\u03c3\u03b1 you\u2026\u00a0\u00a0me\u00a0\u00a0 you\u2026\u00a0\u00a0
""".splitlines(keepends=True) * 3

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
         r"|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
DEEPSEEK = [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
            r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
            r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]
