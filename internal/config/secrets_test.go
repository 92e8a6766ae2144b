package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// SE-06: whoever keeps a log clear of secrets gets all of them, wherever they stand.
func TestAllSecretsOfAConfigurationAreKnown(t *testing.T) {
	c := &Config{
		Providers: []Provider{{Name: "openai", Key: "of a provider"}, {Name: "ollama"}},
		MCP:       []MCPServer{{Authorization: "Bearer of an MCP server"}},
		Channels:  []Channel{{Name: "a"}, {Name: "b"}},
	}
	c.Channels[0].Telegram.Token, c.Channels[0].Telegram.Secret = "of a channel", "of a webhook"
	c.Channels[1].Slack.SigningSecret = "of a channel"
	want := []string{"Bearer of an MCP server", "of a channel", "of a provider", "of a webhook"}
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
		c := new(Config)
		if err := s.set(c, value{text: "a-secret-of-" + s.Key}); err != nil {
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
