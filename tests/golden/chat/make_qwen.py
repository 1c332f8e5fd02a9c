#!/usr/bin/env python3
"""Chats with tools and reasoning in the templates of Qwen2.5 and Qwen3: qwen_expected.json.

  make_qwen.py QWEN2.5 QWEN3     the models' own templates, as files of Jinja

Each chat of qwen.jsonl is rendered by transformers in the model's own template, whose text is
expected, and in ours (qwen_templates.json), whose text must be the same and whose {% generation %}
says what is learned: bytes [first, last). "only" is the template that a chat is for.

Made with transformers 5.24.0, jinja2 3.1.6.
"""

import json
import pathlib
import sys

from transformers.utils.chat_template_utils import render_jinja_template

HERE = pathlib.Path(__file__).parent


def rendered(template, chat, prompt=False, spans=False):
    texts, indices = render_jinja_template(
        [chat["messages"]],
        tools=chat.get("tools"),
        chat_template=template,
        return_assistant_tokens_mask=spans,
        add_generation_prompt=prompt,
    )
    return texts[0], indices[0] if spans else None


def main():
    own = json.loads((HERE / "qwen_templates.json").read_text())
    lines = (HERE / "qwen.jsonl").read_text().splitlines()
    expected = []
    for name, path in zip(("qwen2.5", "qwen3"), sys.argv[1:], strict=True):
        official = pathlib.Path(path).read_text()
        for number, line in enumerate(lines):
            chat = json.loads(line)
            if chat.pop("only", name) != name:
                continue
            for prompt in (False, True):
                text, _ = rendered(official, chat, prompt)
                ours, spans = rendered(own[name], chat, prompt, spans=True)
                assert ours == text, (name, number, ours, text)
                targets = [[len(text[:at].encode()) for at in span] for span in spans]
                expected.append(
                    {"template": name, "line": number, "prompt": prompt, "text": text}
                    | {"targets": targets}
                )
    (HERE / "qwen_expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
