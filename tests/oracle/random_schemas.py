"""Random JSON Schemas of the keywords that structured output keeps (docs/structured_output.md). The same seed gives the
same schemas on every Python: only random.Random.random() is drawn from."""
import random

NAMES = ["id", "name", "tags", "größe", "a b", "x", "xy", "xyz", "日本", "q\"uote", "back\\slash", "line\nbreak", "", "kind"]
TEXTS = ["", "a", "ab", "yes", "no", "naïve", "\"quoted\"", "tab\there", "😀", "a" * 30, "{}", "null"]
PATTERNS = [r"^[a-z]{2,5}$", r"\d+", r"^(yes|no|maybe)$", r"^\w+@\w+$", r"[^a-z]", r"^\S+ \S+$", r"^[A-F0-9]{4}(-[A-F0-9]{4})*$",
            r"colou?r", r"^.{0,12}$", r"\"x\"", r"^\\$", r"^(a|b)*c$", r"^\W\D\s$", r"a.b|^c$"]
FORMATS = ["date", "time", "date-time", "uuid", "ipv4", "ipv6", "email", "hostname", "duration", "uri"]


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed).random
        self.names = []

    def below(self, n):
        return int(self.random() * n)

    def pick(self, values):
        return values[self.below(len(values))]

    def chance(self, p):
        return self.random() < p

    def some(self, values):
        return [value for value in values if self.chance(0.5)]

    def number(self):
        return self.pick([0, 1, -1, 3, 7, 42, -123, 0.5, -2.25, 0.1, 1e-3, 99.99, 1000, 2e10, 123456789, 2 ** 53 + 1])

    def bounds(self, whole):
        schema = {}
        low = self.number()
        high = low + self.pick([0, 1, 2, 10, 1000, 0.75, 1e6])
        if whole and self.chance(0.9):
            low, high = int(low), int(high)
        if self.chance(0.6):
            schema["minimum" if self.chance(0.7) else "exclusiveMinimum"] = low
        if self.chance(0.6):
            schema["maximum" if self.chance(0.7) else "exclusiveMaximum"] = high
        if whole and self.chance(0.3):
            schema["multipleOf"] = self.pick([1, 2, 3, 5, 10, 25, 100])
        return schema

    def integer(self, depth):
        return {"type": "integer", **self.bounds(True)}

    def decimal(self, depth):
        return {"type": "number", **self.bounds(False)}

    def string(self, depth):
        schema = {"type": "string"}
        kind = self.below(5)
        if kind == 0:
            schema["pattern"] = self.pick(PATTERNS)
        elif kind == 1:
            schema["format"] = self.pick(FORMATS)
        elif kind == 2:
            low = self.below(6)
            if self.chance(0.7):
                schema["minLength"] = low
            if self.chance(0.7):
                schema["maxLength"] = low + self.pick([0, 1, 5, 40, 300])
        return schema

    def literal(self, depth):
        kind = self.below(7)
        if kind == 0:
            return self.pick(TEXTS)
        if kind == 1:
            return self.number()
        if kind == 2:
            return self.chance(0.5)
        if kind == 3:
            return None
        if depth > 0 and kind == 4:
            return [self.literal(depth - 1) for _ in range(self.below(3))]
        if depth > 0 and kind == 5:
            return {self.pick(NAMES): self.literal(depth - 1) for _ in range(self.below(3))}
        return self.pick(TEXTS)

    def listed(self, depth):
        if self.chance(0.3):
            return {"const": self.literal(2)}
        return {"enum": [self.literal(1) for _ in range(1 + self.below(6))]}

    def array(self, depth):
        schema = {"type": "array"}
        listed = 0
        if self.chance(0.3):
            listed = 1 + self.below(3)
            schema["prefixItems"] = [self.schema(depth - 1) for _ in range(listed)]
        if self.chance(0.7):
            schema["items"] = self.schema(depth - 1) if self.chance(0.9) else False
        low = self.below(3)
        if self.chance(0.4):
            schema["minItems"] = low
        if self.chance(0.5):
            schema["maxItems"] = max(low, listed) + self.below(4)
        return schema

    def object(self, depth):
        schema = {"type": "object"}
        names = []
        for name in NAMES:
            if len(names) < 4 and self.chance(0.25):
                names.append(name)
        if names:
            schema["properties"] = {name: self.schema(depth - 1) for name in names}
            required = self.some(names)
            if self.chance(0.15):
                required.append("unnamed")
            if required:
                schema["required"] = required
        if self.chance(0.4):
            schema["additionalProperties"] = self.pick([True, False]) if self.chance(0.6) else self.schema(depth - 1)
        if self.chance(0.15):
            schema["maxProperties"] = len(names) + self.below(3)
        if self.chance(0.15) and names:
            schema["minProperties"] = 1
        return schema

    def dictionary(self, depth):
        if self.chance(0.5):
            return {"type": "object", "propertyNames": self.pick([{"pattern": r"^[a-c]+$"}, {"enum": ["p", "q"]}, {"maxLength": 4}]),
                    "additionalProperties": self.schema(depth - 1)}
        return {"type": "object", "patternProperties": {self.pick(PATTERNS): self.schema(depth - 1)}, "additionalProperties": False}

    def branches(self, depth):
        which = self.below(4)
        if which == 0:
            return {"anyOf": [self.schema(depth - 1) for _ in range(1 + self.below(3))]}
        if which == 1:
            return {"oneOf": [self.string(0), self.integer(0), {"type": "null"}, {"type": "boolean"}][self.below(3):]}
        if which == 2:
            kinds = [self.object(depth - 1) for _ in range(2)]
            for i, kind in enumerate(kinds):
                kind["properties"] = {**kind.get("properties", {}), "kind": {"const": f"k{i}"}}
                kind["required"] = sorted({*kind.get("required", []), "kind"})
                kind.pop("maxProperties", None)
            return {"oneOf": kinds}
        left, right = self.object(depth - 1), self.object(depth - 1)
        for part in (left, right):
            part.pop("additionalProperties", None)
        return {"allOf": [left, right]}

    def reference(self, depth):
        return {"$ref": "#/$defs/" + self.pick(["leaf", "tree"])}

    def schema(self, depth):
        makers = [self.integer, self.decimal, self.string, self.string, self.listed]
        if depth > 0:
            makers += [self.array, self.object, self.object, self.object, self.branches, self.dictionary, self.reference]
        made = self.pick(makers)(depth)
        if self.chance(0.1):
            made["description"] = "said of it"
        if self.chance(0.05) and isinstance(made.get("type"), str) and "pattern" not in made:
            made["type"] = [made["type"], "null"]
        if self.chance(0.03):
            return self.pick([{}, True, {"type": ["string", "integer", "null"]}])
        return made

    def whole(self):
        schema = self.schema(3)
        if not isinstance(schema, dict):
            schema = {"anyOf": [schema]}
        tree = {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/tree"}}, "required": ["v"]}
        return {**schema, "$defs": {"leaf": self.schema(0), "tree": tree}}


def schemas(seed, count):
    generator = Generator(seed)
    return [generator.whole() for _ in range(count)]
