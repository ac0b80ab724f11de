"""What the small tokenizers are trained on: made here, so that anyone can."""

import unicodedata

import texts

_SENTENCES = [
    "the river runs down to the mill and the mill grinds the corn",
    "when the water is high the wheel turns faster than the miller likes",
    "she said that they would have been there if the bridge had held",
    "there are three things that a good engineer remembers: measure, write, measure again",
    "a service which fails should say what failed, where it failed and what to do about it",
    "for every function there is a test, and for every test there is a reason",
    "return the number of tokens in the text and the position of the first error",
    "international organisations recommended the implementation of new regulations",
    "I'm sure you're right, he's late, we'll see, they've gone, she'd know, don't ask",
    "der Fluss fließt langsam über die Steine und das Mädchen hört zu",
    "le moulin était fermé, mais la rivière coulait toujours près de l'église",
    "el niño comió una manzana y después jugó en el jardín",
    "река течёт мимо старой мельницы и никто её не видит",
    "これは日本語の文章です。水車は川のそばにあります。",
    "今天天气很好，我们去公园散步吧。中文没有空格。",
    "한국어 문장은 띄어쓰기가 있습니다",
    "if (x == 0) { return nullptr; } else { x += 1; }\n\tfor (auto& y : ys) {\n\t\tprint(y);\n\t}\n",
    "    self.assertEqual(len(result), 10)\n        raise ValueError('bad value: %s' % name)\n\n\n",
    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1024\r\n\r\n",
    "1 2 3 10 20 100 1999 2000 2024 3.14 1,000,000 42% $9.99 +1-555-0100",
    "=== !!! ??? ... --- *** /// <<< >>> ||| &&& ((( ))) [[[ ]]] {{{ }}} ;;;",
]


def lines():
  """A few thousand lines, the same on every machine."""
  out = []
  for i in range(40):
    for sentence in _SENTENCES:
      out.append(sentence if i % 2 else sentence.capitalize() + ".")
  for code in range(0x20, 0x2000):
    name = unicodedata.name(chr(code), "")
    if name and not unicodedata.combining(chr(code)):
      out.append(name.lower() + " " + chr(code))
  out += [t for t in texts.PROSE for _ in range(20)]
  out += [t for t in texts.TEXTS if t not in texts.ADDED + texts.CONTROL]
  return out
