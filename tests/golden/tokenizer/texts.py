"""Texts that tokenizers get wrong: the input of every tokenizer golden."""

WHITE_SPACE = [
    "", " ", "  ", "   ", "\t", "\n", "\n\n", "\n\n\n", "\t\n", "\r\n", "\r",
    "\r\n\r\n", " \n", "\n ", " \n ", "  \n\n  ", "a  b", "a   b", "a \n b",
    "a\n\n\nb", "a\r\nb", "a\tb\t\tc", " a", "  a", "   a", "a ", "a  ", "a\n",
    "    indented\n        more\n\tby tab\n", "x = 1;\r\n\r\n  y\t= 2;  \r\n",
    "a\u0085b", "\u0085\u0085", " \u0085 ", "a\u180eb", "\u180e", " \u180e\u180e x",
    "a\u001cb\u001dc\u001ed\u001f", "\u001c \u001c", "a\u000bb\u000cc", "\u000b\u000b ",
    "a\u00a0b", "\u00a0\u00a0a", " \u00a0a", "\u2003\u2009thin", "\u2028line\u2029para",
    "\u3000全角　空白", "\u202f\u205f\u1680x", "\ufeffbom", "zero\u200bwidth\u200cnon\u200djoin",
    "trailing spaces   \n", "   \n   \n   x", "\n\t \n\t x", " " * 64, "\n" * 33,
    "a" + " " * 31 + "b", " " * 7 + "\n" * 5 + " " * 3 + "z", "\t" * 9 + "x",
]

NUMBERS = [
    "a1b22  333", "½ and x² and ٣٤ and Ⅻ and 四", "In 2024, pi=3.14159 x10",
    "3", "33", "333", "3333", "33333", "333333", "3333333", "33333333", "333333333",
    "1234567890" * 5, "1,234,567.89", "0x1F", "1e-10", "10%", "$5.00", "№5", "5th",
    "²³¹", "x²+y²=z²", "١٢٣٤٥", "१२३", "௧௨௩", "１２３", "ⅠⅡⅢ", "㊿㋀", "𝟘𝟙𝟚", "¼½¾",
    "a²b", "2²", "H₂O", "零一二三", "1 2 3", "1  2   3", "v1.2.3-rc4", "192.168.0.1",
    "2024-01-31T23:59:59Z", "+1 (555) 010-9999",
]

CONTRACTIONS = [
    "I'm you're he's she'll we've they'd don't", "I'M YOU'RE HE'S SHE'LL WE'VE THEY'D DON'T",
    "it'ſ", "'ſ", "'Sat", "'S", "a'ſb", "a'ßb", "'tis", "rock'n'roll", "y'all'd've",
    "don’t", "l'été", "O'Neil's", "''s", "'", "''", "' s", "'re're", "'Re", "'rE",
    "'ll'LL'lL", "'v'e", "dogs' bones", "'d'D", "'K", "'\u212a", "it's5'm",
]

SCRIPTS = [
    "Hello world", " Hello world", "Hello, world!", " Hello, World!!", "HelloWorld helloWORLD",
    "camelCase snake_case kebab-case", "Führer", "naïve café résumé", "cafe\u0301 e\u0301e\u0300",
    "A\u030a Å \u212b", "\u1e9b\u0323", "q\u0307\u0323 q\u0323\u0307", "o\u0302\u0301\u0323",
    "한국어 텍스트", "\u1112\u1161\u11ab\u1100\u1173\u11af", "日本語のテキスト、です。", "中文字符，没有空格的一段话",
    "我想在apple工作1314151天～", "Привет, мир! Ещё", "Ελληνικά ϊΐ", "नमस्ते दुनिया", "கண்டுபிடி",
    "สวัสดีชาวโลก", "កាន់តែពិសេសអាច", "مرحبا بالعالم", "שלום עולם", "السَّلَامُ عَلَيْكُمْ",
    "ქართული", "Հայերեն", "አማርኛ", "မြန်မာ", "བོད་ཡིག", "ᏣᎳᎩ", "Cửa Việt", "нещо на Български",
    "ǅ ǈ ǋ titlecase", "ﬁ ﬂ ligatures", "ｆｕｌｌｗｉｄｔｈ", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "𐍈𐌰", "𓀀𓁐", "Ω Ω", "ß ẞ SS",
    "İstanbul ıi", "ﷺ", "\u0f73\u0f75\u0f81", "\u0344\u0343", "य\u093c ड़", "אּ שׁ",
]

SYMBOLS = [
    "🙂", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪🇫🇷", "1️⃣", "🚀 (normal) 😶‍🌫️ (multiple) ✅", " 🦙.cpp",
    "☃☂★", "→⇒≠≤∞", "“quoted” ‘text’ «guillemets»", "…—–", "!!!!!!", "?!?!", "...", "....", "-----",
    "=====", "/* comment */ // x", "#include <stdio.h>", "for(i=0;i<10;++i){}", "a&&b||!c",
    "https://example.com/a?b=c&d=%20#e", "user@example.com", "C:\\path\\to\\file", "{{ x }}{% y %}",
    "<html><body class=\"a\">x</body></html>", "~`^|\\", "$^+<=>|", "£€¥₹", "©®™", "\u0301", "\u0301\u0301a",
    "a\u0301\u0302\u0303\u0304", " \u0301", "\u200d", "\ufe0f", "\u0000", "ab\u0000cd", "x\u0000\u0000 y",
    "\u0001\u0002\u007f", "\u0007bell\u001b[0m", "\ufffd", "a\ufffdb", "\uffff", "\U0010ffff", "\ue000\uf8ff",
    "\u0378", "\U0001fae8\U00016d6c", "\u2581", "\u2581\u2581a", "a\u2581b", " \u2581 ", "ĠĊ", "Ġhello", "<0x0A>", "<0x41><0xZZ>",
]

CONTROL = [
    "<|endoftext|>", "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n", "<|im_start|", "|im_end|>",
    "<|im_end|><|im_end|>", "<<|im_end|>>", " <|im_end|> ", "a<|im_end|>b", "<|im_start|><|im_start|>system",
    "<|IM_END|>", "<| im_end |>", "<s>", "</s>", "<s>hello</s>", " <s> hello", "<unk>", "<s", "hello <s>",
    "<|begin_of_text|>x<|eot_id|>", "<|eot_id|>  \n", "\u2581<s>",
]

ADDED = [
    "x  <L>  y", "x  <R>  y", "x\u00a0\n<L>y", "food foo foo. <foo>", "<file><fi<filex", "<L><L>", "  <L>  <L>  ",
    "<R>  <R>  ", "<R>\u3000<L>", " <L>", "<L> ", "foo", "foo foo", "foofoo", "_foo", "foo_", "foo\u0301", "éfoo", "foo-foo",
    "\u200dfoo", "foo5", "5foo", "½foo", "foo½", "(foo)", "<fi", "<fil", "<file", "<file>>", "a<fi<L>  <R> foo",
    "<both>", " <both> ", "a \t<both>\n\nb", "<im>x", "<R> foo <L>", "normal\u00e9 NORMALe\u0301",
]

PROSE = [
    "The quick brown fox jumps over the lazy dog. The dog, being lazy, did not mind.",
    "In the beginning the river was slow; later, when the rains came, it carried the mill away.",
    "def merge(left, right):\n    result = []\n    while left and right:\n        if left[0] <= right[0]:\n"
    "            result.append(left.pop(0))\n        else:\n            result.append(right.pop(0))\n    return result + left + right\n",
    "{\"name\": \"headrace\", \"version\": [0, 1, 0], \"ok\": true, \"none\": null}\n",
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n- item\n  - nested\n\n```python\nprint('x')\n```\n",
    "SELECT count(*) FROM t WHERE a >= 10 AND b LIKE '%x%' GROUP BY c;",
    "Dr. Smith's 3 cats (aged 2, 4 & 11) weren't amused at 5:30 p.m.; 20% left.",
    "\u4eca\u5929\u5929\u6c14\u5f88\u597d\uff0c\u6211\u4eec\u53bb\u516c\u56ed\u6563\u6b65\u5427\u3002 OK? 100% \u3067\u3059\u3002",
    "Ünïcödé mïxed wïth plain ascii and 数字 123 and emoji 😀😁😂 and tabs\tand\r\nnewlines.",
]

# (text, times): long runs, encoded by the tests from this description.
REPEATED = [
    ("a", 10000), (" ", 10000), ("\n", 3000), ("ab", 5000), ("1", 4000), ("=", 3000), ("é", 3000), ("四", 2000),
    ("🙂", 1000), (" a", 3000), ("\r\n", 2000), ("A", 3000), ("\u0301", 1000), ("<", 2000), ("the ", 3000), ("'s", 2000),
]

TEXTS = (WHITE_SPACE + NUMBERS + CONTRACTIONS + SCRIPTS + SYMBOLS + CONTROL + ADDED + PROSE)
