"""Chat templates rendered by jinja2 as transformers sets it up: tests/fixtures/templates/cases.json and real.json.

cases.json: {"name", "template", "context"} with "output", or with "error" {"kind", "message", "line" for syntax errors}.
real.json, by `python templates.py FOLDER/templates` (scripts/fetch_llama_cpp_assets prints FOLDER): "contexts" by id, and for
each real template and context "sha256" and, where short, "output", or "error". The clock stands at 2026-03-05 14:07:09.
"""

import hashlib
import json
import sys
from datetime import datetime
from pathlib import Path

import jinja2
from transformers.utils.chat_template_utils import _compile_jinja_template

from template_cases import CASES, TOOL

FOLDER = Path(__file__).resolve().parent.parent / "fixtures" / "templates"
NOW = datetime(2026, 3, 5, 14, 7, 9)


def render(template, context):
  try:
    compiled = _compile_jinja_template(template)
    compiled.globals["strftime_now"] = NOW.strftime
    return {"output": compiled.render(**context)}
  except jinja2.TemplateSyntaxError as error:
    return {"error": {"kind": "syntax", "message": error.message, "line": error.lineno}}
  except SyntaxError as error:  # jinja2 leaves this one (break outside a loop) to Python
    return {"error": {"kind": "syntax", "message": error.msg}}
  except jinja2.exceptions.SecurityError as error:
    return {"error": {"kind": "security", "message": str(error)}}
  except jinja2.UndefinedError as error:
    return {"error": {"kind": "undefined", "message": str(error)}}
  except jinja2.TemplateError as error:
    return {"error": {"kind": "raised", "message": str(error)}}
  except (TypeError, ValueError, ZeroDivisionError, AttributeError, KeyError) as error:
    return {"error": {"kind": type(error).__name__, "message": str(error)}}


def write_cases():
  rows = []
  for category, cases in CASES.items():
    for index, (template, context) in enumerate(cases):
      rows.append({"name": f"{category}/{index}", "template": template, "context": context} | render(template, context))
  text = ",\n".join(json.dumps(r, ensure_ascii=False) for r in rows)
  (FOLDER / "cases.json").write_text(f"[\n{text}\n]\n")
  print(f"{len(rows)} cases, {sum('error' in r for r in rows)} of them errors")


def call(name, arguments, call_id):
  return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


USER = {"role": "user", "content": "Hi there!"}
SYSTEM = {"role": "system", "content": "You are terse."}
ANSWER = {"role": "assistant", "content": "Hello."}
SEARCH = {"type": "function", "function": {"name": "search", "description": "Search the web", "parameters": {
    "type": "object", "properties": {"query": {"type": "string", "description": "what to look for"}, "limit": {"type": "integer"}},
    "required": ["query"]}}}
TURN_WITH_CALL = [USER, {"role": "assistant", "content": "", "tool_calls": [call("get_weather", {"city": "K\u00f6ln", "days": 2}, "call00001")]},
                  {"role": "tool", "name": "get_weather", "tool_call_id": "call00001", "content": "{\"sky\": \"clear\"}"}]
BASE = {"bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True}

CONTEXTS = {
    "user": BASE | {"messages": [USER]},
    "no_generation": BASE | {"messages": [USER, ANSWER], "add_generation_prompt": False},
    "system": BASE | {"messages": [SYSTEM, USER, ANSWER, {"role": "user", "content": "  Spaces \n and lines?\n"}]},
    "typed": BASE | {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi "}, {"type": "text", "text": "there"}]}]},
    "two_users": BASE | {"messages": [USER, USER]},
    "tools": BASE | {"messages": [SYSTEM, USER], "tools": [TOOL, SEARCH]},
    "tool_call": BASE | {"messages": TURN_WITH_CALL, "tools": [TOOL]},
    "no_thinking": BASE | {"messages": [USER], "enable_thinking": False},
    "reasoning": BASE | {"messages": [USER, {"role": "assistant", "content": "Hello.", "reasoning_content": "They greet me."}, USER]},
    "think_in_content": BASE | {"messages": [USER, {"role": "assistant", "content": "<think>\nHm.\n</think>\n\nHello."}, USER]},
}
SHORT = 1000  # bytes: longer outputs are kept as their digest


def write_real(templates):
  rows = []
  for path in sorted(templates.glob("*.jinja")):
    source = path.read_bytes().decode()
    for name, context in CONTEXTS.items():
      result = render(source, context)
      row = {"template": path.name, "context": name}
      if "output" in result:
        data = result["output"].encode()
        row |= {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
        if len(data) < SHORT:
          row["output"] = result["output"]
      else:
        row |= result
      rows.append(row)
  text = ",\n".join(json.dumps(r, ensure_ascii=False) for r in rows)
  contexts = json.dumps(CONTEXTS, ensure_ascii=False)
  (FOLDER / "real.json").write_text(f'{{"contexts": {contexts},\n"cases": [\n{text}\n]}}\n')
  print(f"{len(rows)} renderings of real templates, {sum('error' in r for r in rows)} of them errors")


def main():
  FOLDER.mkdir(parents=True, exist_ok=True)
  write_cases()
  if len(sys.argv) > 1:
    write_real(Path(sys.argv[1]))


if __name__ == "__main__":
  main()
