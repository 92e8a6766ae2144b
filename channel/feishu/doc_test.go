package feishu

import (
	"os"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/channel"
)

// What the channel itself is told, package config compares with the page.
func TestThePageHasEverySettingOfAllChannels(t *testing.T) {
	text, err := os.ReadFile("../../docs/channels/feishu.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range channel.SettingsTable() {
		if !strings.Contains(string(text), "\n| `"+s.Key+"` |") {
			t.Errorf("docs/channels/feishu.md has no row for %s", s.Key)
		}
		for _, value := range s.OneOf {
			if !strings.Contains(string(text), "`"+value+"`") {
				t.Errorf("docs/channels/feishu.md: %s has no value %s", s.Key, value)
			}
		}
	}
}
