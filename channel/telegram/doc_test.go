package telegram

import (
	"os"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/channel"
)

func TestTheGuideHasEverySetting(t *testing.T) {
	text, err := os.ReadFile("../../docs/channels/telegram.md")
	if err != nil {
		t.Fatal(err)
	}
	keys := []string{"token", "api", "mode", "public_url", "secret", "preview", "parse_mode", "max_media", "files"}
	for _, s := range channel.SettingsTable() {
		keys = append(keys, s.Key)
		for _, value := range s.OneOf {
			if !strings.Contains(string(text), "`"+value+"`") {
				t.Errorf("docs/channels/telegram.md: %s has no value %s", s.Key, value)
			}
		}
	}
	for _, key := range keys {
		if !strings.Contains(string(text), "\n| `"+key+"` |") {
			t.Errorf("docs/channels/telegram.md has no row for %s", key)
		}
	}
}
