package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// SE-06: whoever keeps a log clear of secrets gets all of them, wherever they stand.
func TestAllSecretsOfAConfigurationAreKnown(t *testing.T) {
	c := mustLoad(t, `
providers:
  openai: {key: of a provider, headers: {X-Key: of a header}}
mcp:
  search: {url: "http://a", authorization: Bearer of an MCP server}
channels:
  telegram: {token: of a channel}
  hook: {type: webhook, secret: of a webhook_12345, ack: result}
  slack: {accounts: {a: {token: of an account, signing_secret: of a channel}}}
`, nil)
	want := []string{"Bearer of an MCP server", "of a channel", "of a header", "of a provider", "of a webhook_12345", "of an account"}
	if diff := cmp.Diff(want, c.Secrets()); diff != "" {
		t.Error(diff)
	}
	if list := new(Config).Secrets(); len(list) != 0 {
		t.Errorf("%q", list)
	}
}

// A setting that is secret stands in a field of the type that is found: a plain string would be in the log.
func TestEverySecretSettingIsFound(t *testing.T) {
	for _, s := range Settings() {
		if !s.Secret {
			continue
		}
		c := newConfig()
		setting := settingIn(c, s.Key)
		setting.check = "" // keys have a form
		if err := setting.set(value{text: "a-secret-of-" + s.Key}); err != nil {
			t.Errorf("%s: %v", s.Key, err)
			continue
		}
		if !slices.Contains(c.Secrets(), "a-secret-of-"+s.Key) {
			t.Errorf("%s is not found", s.Key)
		}
	}
}

// DA-11: a flag shows its value to every user of the machine.
func TestDA_11_AFlagWithASecretIsWarnedOf(t *testing.T) {
	flags := 0
	for _, s := range Settings() {
		if s.fileOnly {
			continue
		}
		value := "canary-0123456789"
		if s.Key == "auth.keys" {
			value = "ann:canary-0123456789-01:user"
		}
		if !s.Secret {
			continue
		}
		flags++
		c := mustLoad(t, "", nil, "--"+s.Flag(), value)
		text := strings.Join(c.Warnings, "\n")
		if !strings.Contains(text, "--"+s.Flag()+" contains a secret") || !strings.Contains(text, s.Variables()[0]) || strings.Contains(text, "canary") {
			t.Errorf("%s: %q", s.Key, text)
		}
		c = mustLoad(t, "", []string{s.Variables()[0] + "=" + value})
		if text := strings.Join(c.Warnings, "\n"); strings.Contains(text, "has a secret") {
			t.Errorf("%s from the environment: %q", s.Key, text)
		}
	}
	if flags < 5 {
		t.Errorf("%d settings are secret and have a flag", flags)
	}
}
