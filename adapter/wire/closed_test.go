package wire

import (
	"encoding/json"
	"testing"
)

// MO-23: schemas in the subset that structured outputs take.
func TestSchemasAreClosedForAnthropic(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"string"}`: `{"type":"string"}`,
		`{"type":"object","properties":{"b":{"type":"number","minimum":1},"a":{"type":"array","items":{"type":"object","properties":{"c":{"enum":["x",1]}},"required":["c"]},"minItems":3}}}`: `{"type":"object","properties":{"b":{"type":"number"},"a":{"type":"array","items":{"type":"object","properties":{"c":{"enum":["x",1]}},"required":["c"],"additionalProperties":false}}},"additionalProperties":false}`,
		`{"$schema":"x","properties":{"a \"b\"":{"$ref":"#/$defs/d"}},"additionalProperties":false,"$defs":{"d":{"type":["string","null"],"format":"date","pattern":"x"}}}`:                   `{"properties":{"a \"b\"":{"$ref":"#/$defs/d"}},"$defs":{"d":{"type":["string","null"],"format":"date"}},"additionalProperties":false}`,
		`{"oneOf":[{"type":"integer","format":"int64"},{"const":"é\n"}]}`: `{"anyOf":[{"type":"integer"},{"const":"é\n"}]}`,
		`{"type":"object"}`:                 "",
		`{"type":["object","null"]}`:        "",
		`{"type":"array","items":true}`:     "",
		`{"not":{}}`:                        "",
		`{"allOf":[{"type":"string"}]}`:     "",
		`true`:                              "",
		`{`:                                 "",
		``:                                  "",
		`{"type":"object","properties":{}}`: "",
		`{"type":"object","properties":{"a":{}},"additionalProperties":true}`: "",
		`{"properties":{"a":{"type":"object"}}}`:                              "",
	} {
		got, ok := Closed(json.RawMessage(schema), "oneOf")
		if ok != (want != "") || string(got) != want {
			t.Errorf("%s:\n%s %v, want\n%s", schema, got, ok, want)
		}
	}
}

func TestVersionsAreReadOfNames(t *testing.T) {
	for name, want := range map[string]int{
		"claude-opus-4-6": 46, "claude-sonnet-4-20250514": 40, "claude-3-5-sonnet-20241022": 35, "claude-3-7-sonnet-latest": 37, "claude-3-opus-20240229": 30,
		"us.anthropic.claude-haiku-4-5-20251001-v1:0": 45, "anthropic/claude-sonnet-4.5": 45, "claude-opus-5": 50, "claude-fable-5-1": 51, "Claude-Opus-4-7[1m]": 47,
		"claude-haiku-4-5@20251001": 45, "kimi-k2": 0, "claude": 0, "MiniMax-M2": 0, "claude-opus-4-1-20250805": 41,
	} {
		if got := ClaudeVersion(name); got != want {
			t.Errorf("%s: %d", name, got)
		}
	}
}

// MO-23: schemas in the subset, with their members in order.
func TestSchemasAreClosedForAmazon(t *testing.T) {
	for schema, want := range map[string]string{
		` {"type":"object","properties":{"b":{"type":"string","minLength":1},"a":{"type":"array","maxItems":3,"items":{"type":"object","properties":{"x":{"$ref":"#/$defs/y"}}}}},"required":["b"],"$defs":{"y":{"enum":["é","\""]}}}`: `{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"array","items":{"type":"object","properties":{"x":{"$ref":"#/$defs/y"}},"additionalProperties":false}}},"required":["b"],"$defs":{"y":{"enum":["é","\""]}},"additionalProperties":false}`,
		`{"anyOf":[{"type":"null"},{"type":["string","null"],"description":"a \"b\""}]}`: `{"anyOf":[{"type":"null"},{"type":["string","null"],"description":"a \"b\""}]}`,
		`{"type":"object","properties":{"a":true}}`:                                      "", `{"type":"object","properties":{"a":{}},"additionalProperties":{"type":"string"}}`: "",
		`{"type":"object"}`: "", `{"not":{}}`: "", `true`: "", `[`: "", `{"items":""}`: "", `{"properties":{"a":{"if":{}}}}`: "",
	} {
		if got, ok := Closed(json.RawMessage(schema), "pattern", "format", "allOf"); ok != (want != "") || ok && string(got) != want {
			t.Errorf("%s\n%s\n%s", schema, got, want)
		}
	}
}
