"""Writes chat_goldens.json: what jinja2 renders, set up as transformers does.

    python3 -m venv venv && venv/bin/pip install jinja2==3.1.6
    venv/bin/python make_chat_goldens.py

Made with jinja2 3.1.6, MarkupSafe 3.0 and Python 3.11. The set-up of the
environment and the end of a continued message are those of transformers 4.57
(utils/chat_template_utils.py). Every case says what jinja2 gave: the text, or
null when it refused.
"""

import datetime
import itertools
import json
import pathlib

import jinja2
import jinja2.ext
import jinja2.sandbox

import expression_cases

HERE = pathlib.Path(__file__).parent
NOW = datetime.datetime(2024, 7, 5, 9, 3, 7)
TAG = "CONTINUE_FINAL_MESSAGE_TAG "


class Generation(jinja2.ext.Extension):
    """{% generation %}: a block that renders as what is in it."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_render")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def compile_template(source):
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(
        value, ensure_ascii=False, indent=None, separators=None, sort_keys=False
    ):
        return json.dumps(
            value,
            ensure_ascii=ensure_ascii,
            indent=indent,
            separators=separators,
            sort_keys=sort_keys,
        )

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[Generation, jinja2.ext.loopcontrols],
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = NOW.strftime
    return environment.from_string(source)


def render(source, case):
    messages = json.loads(json.dumps(case.get("messages", [])))
    if case.get("continue"):
        text = messages[-1]["content"]
        if isinstance(text, list):
            part = [part for part in text if "text" in part][-1]
            text = part["text"]
            part["text"] += TAG
        else:
            messages[-1]["content"] += TAG
    variables = {"bos_token": "<s>", "eos_token": "</s>", "documents": None}
    variables.update(case.get("kwargs", {}))
    rendered = compile_template(source).render(
        messages=messages,
        tools=case.get("tools"),
        add_generation_prompt=case.get("prompt", True),
        **variables,
    )
    if not case.get("continue"):
        return rendered
    if text.strip() not in rendered or TAG.strip() not in rendered:
        raise ValueError("the final message is not in the conversation")
    end = rendered.rindex(TAG.strip())
    if rendered[end : end + len(TAG)] == TAG:
        return rendered[:end]
    return rendered[:end].rstrip()


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def system(content):
    return {"role": "system", "content": content}


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": 'Wéather <b>&"now"\'</b>',
            "parameters": {
                "type": "object",
                "properties": {
                    "where": {"type": "string", "enum": ["a", "b"]},
                    "days": {"type": ["integer", "null"], "default": 1.0},
                    "deep": {
                        "type": "object",
                        "properties": {
                            "z": {"type": "array", "items": {"type": "string"}},
                            "A": {"type": "boolean", "default": None},
                        },
                        "required": ["z"],
                    },
                },
                "required": ["where"],
            },
            "return": {"type": "string"},
        },
    },
    {
        "type": "function",
        "function": {
            "name": "noop",
            "description": "",
            "parameters": {"type": "object", "properties": {}},
        },
    },
]

CALL = {
    "id": "abcdefghi",
    "type": "function",
    "function": {
        "name": "get_weather",
        "arguments": {"where": "Zürich 😀", "days": 3, "x": 1.0, "n": None},
    },
}
RESULT = {
    "role": "tool",
    "name": "get_weather",
    "content": '{"t": 21}',
    "tool_call_id": "abcdefghi",
}
PARTS = [
    {"type": "text", "text": " first "},
    {"type": "image"},
    {"type": "text", "text": "last "},
]

CONVERSATIONS = {
    "user": [user("hi  ")],
    "system": [system(" Be good. "), user("\nhi")],
    "turns": [user("hi"), assistant(" hello "), user("again")],
    "ends_with_assistant": [system("s"), user("a"), assistant("b ")],
    "tool": [
        user("weather?"),
        assistant(None, tool_calls=[CALL]),
        RESULT,
    ],
    "two_tools": [
        system("s"),
        user("weather?"),
        assistant("Let me see.", tool_calls=[CALL, CALL]),
        RESULT,
        RESULT,
        assistant("21 degrees"),
        user("thanks"),
    ],
    "arguments_as_text": [
        user("w"),
        assistant(
            "",
            tool_calls=[
                {
                    "id": "abcdefghi",
                    "function": {"name": "f", "arguments": '{"a":  1}'},
                }
            ],
        ),
        {"role": "tool", "content": {"content": [1, 2]}, "tool_call_id": "x"},
    ],
    "thinking": [
        user("q"),
        assistant("<think>\nhm\n</think>\n\nanswer"),
        user("r"),
        assistant("yes", reasoning_content="because\n"),
    ],
    "wrong_order": [assistant("x"), user("y")],
    "same_twice": [user("x"), user("y")],
    "unknown_role": [{"role": "critic", "content": "x"}],
    "empty": [],
    "parts": [user(PARTS)],
    "no_content": [{"role": "user"}],
    "unicode": [user("<|im_end|>\u00e9漢😀\u200b\u2028\x00")],
}

KWARGS = {
    "enable_thinking": False,
    "forbid_system": True,
    "tools_first": False,
    "builtin": ["interpreter", "get_weather"],
    "documents": [{"title": "T", "text": "D"}, {"text": "E"}],
    "date_string": "today",
}


def family_cases():
    flags = itertools.product((None, TOOLS), (True, False), ({}, KWARGS))
    for tools, prompt, kwargs in flags:
        for name, messages in CONVERSATIONS.items():
            # What the flags change, they change in these too.
            if not prompt and (tools or kwargs):
                continue
            case = {"messages": messages}
            if tools:
                case["tools"] = tools
            if not prompt:
                case["prompt"] = False
            if kwargs:
                case["kwargs"] = kwargs
            yield name, case


def continued_cases():
    for text in ("The answer is", "The answer is  ", "  x\n", "é漢", "", "hi"):
        yield {
            "messages": [user("hi"), assistant(text)],
            "prompt": False,
            "continue": True,
        }
    yield {
        "messages": [user("q"), assistant([{"type": "text", "text": "a "}])],
        "prompt": False,
        "continue": True,
    }


def whitespace_cases():
    """Signs of tags, and what stands around them."""
    signs = ("", "-", "+")
    for before, after in itertools.product(
        ("a\n  ", "a ", "  ", "\n\n"), ("\n  b", " \n\nb", "b", "\n")
    ):
        for left, right in itertools.product(signs, signs):
            yield f"{before}{{%{left} if true {right}%}}{after}" + "{% endif %}."
        for left, right in itertools.product(signs, signs):
            yield f"{before}{{#{left} c {right}#}}{after}"
        for left, right in itertools.product(signs, ("", "-")):
            yield f"{before}{{{{{left} 1 {right}}}}}{after}"
    for left, inner_left, inner_right, right in itertools.product(
        ("", "-"), ("", "-"), ("", "-", "+"), ("", "-", "+")
    ):
        yield (
            f"a\n  {{%{left} raw {inner_left}%}} \n {{{{ x }}}} \n"
            f"  {{%{inner_right} endraw {right}%}} \n b"
        )
    yield from (
        "a\n",
        "a\n\n",
        "\n",
        "",
        "a\r\nb\rc\r\n",
        "{% if true %}\r\n  x\r\n{% endif %}\r\n",
        "{% if true %}\n\n  x{% endif %}\n\ny",
        "  {% if true %}  {{ 1 }}  {% endif %}  \n",
        "\t{%- if true -%}\t\u00a0\u3000x\u2003{%- endif %}",
        "x {#- a -#} y {# b #} z",
        "{{ '\n' }}\n{{ '\r\n' }}",
        "a\n   {{ 1 }}\n   {# c #}\n   {% set q = 1 %}\n   b",
        "{% set a = 1 %} {% set b = 2 %}\n{% set c = 3 %}",
        "{{1}}{{2}}{%if 1%}3{%endif%}",
        "{{-1}}{{+1}}{{- 1 -}}  2",
        "{% for x in [1,2] %}\n  {{ x }}\n{% endfor %}\nend",
        "{% for x in [1,2] -%}\n  {{ x }}\n{%- endfor %}\nend",
        "{",
        "{ {",
        "}} %} #}",
        "a {",
        "{ % if %}",
        "{{ '}}' }}{{ '%}' }}{% set a = '%}' %}{{ a }}",
        "{{ {'a': {'b': 1}}['a']['b'] }}{{ {} }}",
    )


def unicode_cases():
    special = "".join(
        chr(c)
        for c in range(0x110000)
        if not 0xD800 <= c < 0xE000
        and max(map(len, (chr(c).upper(), chr(c).title(), chr(c).lower()))) > 1
    )
    texts = [
        special,
        "ὈΔΥΣΣΕΎΣ ΑΣ. ΣΑ Σ ΆΣ'Σ",
        "dž Ǆ ǆ ǅ ŉ ß ﬁ İ ı Ÿ ÿ µ Ω",
        "привет Мир ԱԲԳ აბგ Ⴀ 𐐀𐐨 ａＡ",
        "a\u0300É ﬀ\u200d 👩‍👩‍👧 🇨🇭",
    ]
    for text in texts:
        for how in (
            "|upper",
            "|lower",
            "|capitalize",
            "|title",
            ".title()",
            ".swapcase()",
            "[::-1]",
            "|list",
            ".split()",
            "|length",
        ):
            yield "{{ messages[0].content" + how + " }}", text


def note(case, source):
    try:
        case["want"] = render(source, case)
    except Exception:  # whatever jinja2 or Python raises is a refusal
        case["want"] = None
    return case


def main():
    templates = {
        path.stem: path.read_text("utf-8")
        for path in sorted((HERE / "templates").glob("*.jinja"))
    }
    families = []
    for template, source in templates.items():
        for name, case in family_cases():
            families.append(
                note({"template": template, "name": name, **case}, source)
            )
        for case in continued_cases():
            families.append(
                note({"template": template, "name": "continued", **case}, source)
            )
    lines = []
    messages = [system("sys"), user("hi")]
    for group, sources in vars(expression_cases).items():
        if not group.isupper() or group == "CONTEXT":
            continue
        for source in sources:
            case = {"messages": messages, "kwargs": expression_cases.CONTEXT}
            note(case, source)
            lines.append({"source": source, "want": case["want"]})
    for source in dict.fromkeys(whitespace_cases()):
        lines.append({"source": source, "want": note({}, source)["want"]})
    for source, text in unicode_cases():
        case = note({"messages": [user(text)]}, source)
        lines.append({"source": source, "text": text, "want": case["want"]})
    # Every conversation, the tools and the kwargs are written once.
    for case in families:
        if case["name"] in CONVERSATIONS:
            del case["messages"]
        if "tools" in case:
            case["tools"] = True
        if "kwargs" in case:
            case["kwargs"] = True
    goldens = {
        "made_with": f"jinja2 {jinja2.__version__}",
        "conversations": CONVERSATIONS,
        "tools": TOOLS,
        "kwargs": KWARGS,
        "families": families,
        "line_messages": messages,
        "line_kwargs": expression_cases.CONTEXT,
        "lines": lines,
    }
    text = json.dumps(goldens, ensure_ascii=False, separators=(",", ":"))
    (HERE / "chat_goldens.json").write_text(text + "\n", "utf-8")
    print(len(families), "conversations,", len(lines), "lines,", len(text), "bytes")


if __name__ == "__main__":
    main()
