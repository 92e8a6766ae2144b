package adapter

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

// SE-06: what a provider or a proxy echoes goes to the log without keys.
func TestRedactTakesSecretsOut(t *testing.T) {
	const key = "CANARY-1234"
	for name, text := range map[string]string{
		"the key itself":                  "you sent " + key,
		"a bearer token":                  "Authorization: Bearer CANARYabc.def-123",
		"a header in JSON":                `{"headers":{"Authorization":"Bearer CANARYabc"}}`,
		"basic credentials":               "authorization: basic CANARYabc==",
		"an OpenAI key":                   "Incorrect API key provided: sk-proj-CANARY_abcdef.",
		"a masked key":                    "provided: sk-CANAR***************3456",
		"userinfo in a URL":               "Post \"https://user:CANARY@host/v1\": refused",
		"a query in a URL":                `Post "https://host/v1?x=1&api_key=CANARYx&y=2": EOF`,
		"another query":                   `https://host/v1?key=CANARYx`,
		"an api-key header":               "api-key: CANARYabc",
		"an x-api-key in JSON":            `{"x-api-key":"CANARYabc"}`,
		"Azure's other header":            "Ocp-Apim-Subscription-Key: CANARYabc",
		"a token of Coze":                 "the token pat_CANARYabcdef is not valid",
		"a key of this server":            "GET /lsk_CANARY22_abcdefghijklmnop",
		"a ticket of this server":         "GET /v1/runs/lst_CANARYabcdefghij",
		"a signed token":                  "jwt eyJCANARYabc.eyJCANARYdef.CANARY-_x expired",
		"the key, at the limit":           strings.Repeat("x", maxCause-5) + key,
		"the key, split by the first cut": strings.Repeat(" ", 4*maxCause-len(key)/2) + key,
	} {
		got := Redact(text, key, "")
		if strings.Contains(got, "CANAR") {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := Redact("the model is overloaded, sk- is a prefix, keys: none"); got != "the model is overloaded, sk- is a prefix, keys: none" {
		t.Errorf("%q", got)
	}
	if err := RedactError(errors.New("Bearer CANARYabc")); strings.Contains(err.Error(), "CANARY") || errors.Unwrap(err) != nil {
		t.Errorf("%v", err)
	}
	if RedactError(nil) != nil {
		t.Error("an error of nil")
	}
}

// A file may have the name of a field. What is wrong with it has to be read, for somebody is to put it right.
func TestRedactLeavesWhatIsWrongWithAFile(t *testing.T) {
	for _, text := range []string{
		"secret: no such file or directory",
		"openat secret: no such file or directory",
		"open /run/secrets/api-key: permission denied",
		"open /etc/authorization: is a directory",
		`fork/exec "/opt/x-api-key": no such file or directory`,
		"secret: file does not exist",
		"openat access_token: path escapes from parent",
		`exec: "basic": executable file not found in $PATH`,
		"open basic: too many open files",
		`open C:\keys\secret: The system cannot find the file specified.`,
		"read secret: input/output error, secret: is a directory",
	} {
		if got := Redact(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	for text, want := range map[string]string{
		"secret: swordfish":  "secret: ***",
		"secret: no":         "secret: ***",
		"secret: nosuchfile": "secret: ***",
		"secret: no such file or directory, api-key: permissiondenied": "secret: no such file or directory, api-key: ***",
		"secret=is a directory": "secret=*** a directory", // no system writes it so
	} {
		if got := Redact(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

// What remains of a key that the first cut goes through is at the end, which short words in place of long keys bring into the log.
func TestRedactLeavesNoPartOfAKeyThatIsEchoedAgainAndAgain(t *testing.T) {
	key := "CANARY" + strings.Repeat("0123456789", 6)
	for n := range len(key) {
		got := Redact(strings.Repeat("x", n)+strings.Repeat(key+" ", 1000), key)
		if strings.Contains(got, "CANARY") || !strings.HasSuffix(got, "…") {
			t.Fatalf("%d: %q", n, got[len(got)-len(key):])
		}
	}
}

func TestRedactIsBoundedAndValid(t *testing.T) {
	got := Redact(strings.Repeat("é", 10<<20) + "\xff")
	if len(got) > maxCause+len("…") || !utf8.ValidString(got) {
		t.Errorf("%d bytes", len(got))
	}
	if got := Redact("a\xffb"); got != "a\uFFFDb" {
		t.Errorf("%q", got)
	}
}
