package config

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/channel/telegram"
)

const telegramToken = "TELEGRAM_BOT_TOKEN=1:telegram-token"

// shortest is enough for a channel that answers.
const shortest = `
agents:
  assistant: {model: "openai:gpt-4o-mini"}
channels:
  telegram:
    token: {env: TELEGRAM_BOT_TOKEN}
    api: https://api.telegram.org
    agent: assistant
    dm: {policy: allowlist, allow_from: ["42"]}
    groups: {policy: open}
`

func tree(t *testing.T, c *Config) *channel.Tree {
	t.Helper()
	tree, err := channel.NewTree(c.Access)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestALittleIsEnoughForAChannel(t *testing.T) { // CH-103
	c, err := load(t, shortest, []string{telegramToken})
	if err != nil {
		t.Fatal(err)
	}
	want := []Channel{{Name: "telegram", Type: "telegram", At: "lingserve.yaml:5:3", Telegram: telegram.Settings{
		Token: "1:telegram-token", Mode: "poll", Preview: "edit", Menu: "commands",
		Settings: platform.Settings{API: "https://api.telegram.org", MaxMedia: 10 << 20},
	}}}
	if diff := cmp.Diff(want, c.Channels); diff != "" {
		t.Error(diff)
	}
	p := tree(t, c).Policy(channel.PolicyQuery{Channel: "telegram", Kind: channel.Direct, Conversation: "42"})
	if p.DM != channel.PolicyAllowlist || !cmp.Equal(p.DMAllowFrom, []string{"42"}) || p.Group != channel.PolicyOpen || !p.RequireMention || p.Agent != "assistant" {
		t.Errorf("got %+v", p)
	}
	for key, want := range map[string]string{
		"dm.policy": "channels.telegram.dm.policy", "groups.require_mention": "default:groups.require_mention",
	} {
		if got := p.Sources[key]; got != want {
			t.Errorf("%s is from %q, expected %q", key, got, want)
		}
	}
	if from := c.Source("channels.telegram.dm.policy"); from.String() != "lingserve.yaml:9" {
		t.Errorf("the policy is from %s", from)
	}
}

// DC-02: limits are numbers, and one that is out of range is said where it stands.
func TestLimitsOfAChannelAreNumbers(t *testing.T) {
	const file = "channels:\n  support:\n    type: telegram\n    token: \"1:a\"\n    limits: {sender_rate: RATE, sender_burst: 3, chat_rate: 0}\n"
	c, err := load(t, strings.Replace(file, "RATE", "7", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	p := tree(t, c).Policy(channel.PolicyQuery{Channel: "support", Kind: channel.Direct})
	if p.SenderRate != 7 || p.SenderBurst != 3 || p.ChatRate != 0 || p.Sources["limits.sender_rate"] != "channels.support.limits.sender_rate" {
		t.Errorf("got %+v of %q", p, p.Sources["limits.sender_rate"])
	}
	for value, says := range map[string]string{"-1": "-1 is too small; expected at least 0", "soon": "channels.support.limits.sender_rate"} {
		if _, err := load(t, strings.Replace(file, "RATE", value, 1), nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", value, err)
		}
	}
}

func TestSettingsOfChannelsAreFoundFieldByField(t *testing.T) { // CH-103
	c, err := load(t, `
agents: {other: {}}
channels:
  support:
    type: telegram
    token: "1:a"
    unmentioned: drop
    debounce: 2s
    dm: {policy: pairing, "42": {agent: other}}
    groups:
      policy: open
      only: ["-100", "-200"]
      "-100":
        require_mention: false
        system_prompt: ""
        threads:
          "7": {enabled: false, mentions: {patterns: [Ling]}}
    accounts:
      work: {token: {env: WORK}, dm: {policy: open}}
      home: {groups: {allow_from: inherit}}
`, []string{"WORK=1:b"})
	if err != nil {
		t.Fatal(err)
	}
	var logins []string
	for _, ch := range c.Channels {
		logins = append(logins, fmt.Sprint(ch.Where(), " ", ch.Type, " ", ch.Telegram.Token.Reveal()))
	}
	if diff := cmp.Diff([]string{
		"channels.support.accounts.work telegram 1:b", "channels.support.accounts.home telegram 1:a",
	}, logins); diff != "" {
		t.Error(diff)
	}
	settings := tree(t, c)
	thread := settings.Policy(channel.PolicyQuery{Channel: "support", Account: "work", Kind: channel.Group, Conversation: "-100", Thread: "7"})
	if thread.RouteAllowed || thread.RequireMention || thread.Unmentioned != channel.UnmentionedDrop || thread.Debounce != 2*time.Second ||
		!cmp.Equal(thread.Patterns, []string{"Ling"}) || thread.DM != channel.PolicyOpen {
		t.Errorf("got %+v", thread)
	}
	if got := thread.Sources["groups.enabled"]; got != "channels.support.groups.-100.threads.7.enabled" {
		t.Errorf("it is from %q", got)
	}
	if agent := settings.Policy(channel.PolicyQuery{Channel: "support", Account: "home", Kind: channel.Direct, Conversation: "42"}).Agent; agent != "other" {
		t.Errorf("%q answers", agent)
	}
	if agent := settings.Policy(channel.PolicyQuery{Channel: "support", Account: "home", Kind: channel.Direct, Conversation: "43"}).Agent; agent != DefaultAgent {
		t.Errorf("%q answers where nobody is named", agent)
	}
}

func TestTheWebAndTheTerminalAreThereWithoutAConfiguration(t *testing.T) { // CH-152, CH-162
	c, err := load(t, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	settings := tree(t, c)
	web := settings.Policy(channel.PolicyQuery{Channel: "web", Kind: channel.Direct})
	if web.DM != channel.PolicyOpen || web.CommandMode != channel.CommandsSenders {
		t.Errorf("the web has %+v", web)
	}
	cli := settings.Policy(channel.PolicyQuery{Channel: "cli", Kind: channel.Direct})
	if cli.DM != channel.PolicyAllowlist || !cmp.Equal(cli.DMAllowFrom, []string{"local"}) || !cmp.Equal(cli.Admins, []string{"local"}) || cli.OnBusy != "steer" {
		t.Errorf("the terminal has %+v", cli)
	}
	if len(c.Channels) > 0 {
		t.Errorf("channels run: %+v", c.Channels)
	}
	if p := settings.Policy(channel.PolicyQuery{Channel: "telegram", Kind: channel.Direct}); p.DM != "" {
		t.Errorf("somebody may talk on a channel that is not configured: %q", p.DM)
	}
	if c, err = load(t, "channels: {web: {dm: {policy: disabled}}}", nil); err != nil {
		t.Fatal(err)
	}
	if web := tree(t, c).Policy(channel.PolicyQuery{Channel: "web", Kind: channel.Direct}); web.DM != channel.PolicyDisabled || web.CommandMode != channel.CommandsSenders {
		t.Errorf("the web has %+v", web)
	}
}

func TestWhatIsWrongWithAChannelIsSaidWhereItStands(t *testing.T) { // CH-101, CH-102, CH-103
	for _, test := range []struct{ name, file, want string }{
		{"a name that is near", "channels:\n  telegrm: {}", `2:3: channels.telegrm: has no type; expected one of TYPES; did you mean telegram?`},
		{"a type that is near", "channels:\n  x: {type: webhok}", `2:13: channels.x.type: "webhok" is invalid; expected one of TYPES; did you mean webhook?`},
		{"a type that is another", "channels:\n  web: {type: cli}", `2:15: channels.web.type: "cli" is invalid; expected one of web`},
		{"no channel", "channels: [telegram]", `1:11: channels: expected settings, one per line, such as "NAME: …"`},
		{"a name in capitals", "channels:\n  Web: {}", `2:3: channels.Web: invalid name; expected only lower-case letters, digits, - and _`},
		{"a variable that is not set", "channels:\n  telegram: {token: {env: NONE}}", `2:27: channels.telegram.token: the environment variable NONE is not set; set it, or use another one`},
		{"a setting that is near", "channels:\n  web: {dm: {polcy: open}}", `2:14: channels.web.dm.polcy: unknown setting; did you mean channels.web.dm.policy?`},
		{"a setting of another type", "channels:\n  web: {allow_private: [x]}", `2:9: channels.web.allow_private: unknown setting`},
		{"a value that is none", "channels:\n  web: {unmentioned: soon}", `2:22: channels.web.unmentioned: "soon" is invalid; expected one of history, drop, observe`},
		{"an id that is a number", "channels:\n  web: {dm: {allow_from: [42]}}", `2:27: channels.web.dm.allow_from: 42 is not text; put the value in quotes`},
		{"groups by pairing", "channels:\n  web: {groups: {policy: pairing}}", `2:26: channels.web.groups.policy: "pairing" is invalid; expected one of disabled, open, allowlist`},
		{"everybody in an allowlist", "channels:\n  web: {dm: {policy: allowlist, allow_from: [\"*\"]}}", `2:45: channels.web.dm.allow_from: "*" in the list has no effect with the policy allowlist; set dm.policy: open to admit everybody`},
		{"everybody gives commands", "channels:\n  web: {commands: {admins: [\"*\"]}}", `2:28: channels.web.commands.admins: "*" would give commands to everybody; set commands.mode: senders to give them to all admitted senders`},
		{"an agent that is not there", "channels:\n  web: {agent: asistant}", `2:16: channels.web.agent: "asistant" is invalid; expected one of assistant; did you mean assistant?`},
		{"a setting in the wrong place", "channels:\n  web: {groups: {\"-1\": {log: {previews: true}}}}", `2:25: channels.web.groups.-1.log: unknown setting`},
		{"a conversation without settings", "channels:\n  web: {groups: {\"-1\": yes}}", `2:18: channels.web.groups.-1: unknown setting`},
		{"a conversation without an id", "channels:\n  web: {dm: {\"\": {agent: assistant}}}", `lingserve.yaml: channels.web.dm."": expected a name or an id, got none`},
		{"a duration that is none", "channels:\n  web: {debounce: fast}", `2:19: channels.web.debounce: "fast" is invalid; expected a duration, such as 30s or 5m`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := load(t, test.file, nil)
			want := strings.Replace(test.want, "TYPES", strings.Join(ChannelTypes(), ", "), 1)
			if '0' <= want[0] && want[0] <= '9' {
				want = "lingserve.yaml:" + want
			}
			start, isStart := strings.CutSuffix(want, "…")
			if err == nil || err.Error() != want && !(isStart && strings.HasPrefix(err.Error(), start)) {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

func TestChannelsArePrintedAsTheyAreReadAndSecretsAreStars(t *testing.T) { // CH-193
	c, err := load(t, `
channels:
  telegram: {token: {env: TELEGRAM_BOT_TOKEN}, dm: {policy: open, "4.2": {agent: assistant}}}
  hook: {type: webhook, secret: {env: SECRET}, callback: "https://example.com"}
`, []string{telegramToken, "SECRET=whsec_canary"})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := c.Print(&b); err != nil {
		t.Fatal(err)
	}
	shown := b.String()
	for _, secret := range []string{"telegram-token", "canary"} {
		if strings.Contains(shown, secret) || strings.Contains(fmt.Sprintf("%+v %#v", c.Channels, c.Channels), secret) {
			t.Errorf("%s is shown", secret)
		}
	}
	again := strings.NewReplacer(stars, "again").Replace(shown)
	read, err := load(t, again, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, again)
	}
	b.Reset()
	if err := read.Print(&b); err != nil {
		t.Fatal(err)
	}
	values := func(text string) (lines []string) {
		for line := range strings.Lines(text) {
			value, _, _ := strings.Cut(line, "  # ")
			lines = append(lines, strings.TrimSpace(value))
		}
		return lines
	}
	if diff := cmp.Diff(values(shown), values(b.String())); diff != "" {
		t.Error(diff)
	}
}

func TestAConfigurationCanBeReadOnceMore(t *testing.T) {
	c, err := load(t, "channels: {web: {dm: {policy: disabled}}}", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("lingserve.yaml", []byte("channels: {web: {dm: {policy: allowlist}}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	next, err := c.Reload()
	if err != nil {
		t.Fatal(err)
	}
	if p := tree(t, next).Policy(channel.PolicyQuery{Channel: "web", Kind: channel.Direct}); p.DM != channel.PolicyAllowlist {
		t.Errorf("the policy is %q", p.DM)
	}
}

// Whatever is written, it is taken or refused, and what is taken can be used.
func FuzzChannels(f *testing.F) {
	for _, text := range []string{
		shortest, "channels: {web: {dm: {\"42\": {agent: assistant}}, groups: {\"-1\": {threads: {\"7\": {enabled: false}}}}}}",
		"channels: {a: {type: telegram, token: \"1:a\", accounts: {b: {dm: {policy: open}}}}}", "channels: {web: {dm: [a]}}", "channels: *x",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l := newLoader(nil, []string{"TELEGRAM_BOT_TOKEN=1:a"})
		l.read(text)
		l.finishChannels()
		if l.NumProblems() > 0 {
			return
		}
		if _, err := channel.NewTree(l.c.Access); err != nil {
			t.Errorf("taken, and then refused: %v", err)
		}
	})
}

// Who sets a channel up finds all that can be set on one page.
func TestThePageOfAChannelHasAllItsSettings(t *testing.T) {
	for _, kind := range channelTypes {
		own := kind.settings(new(Channel))
		if len(own) == 0 {
			continue
		}
		page, err := os.ReadFile("../../docs/channels/" + kind.name + ".md")
		if err != nil {
			t.Errorf("the channel %s has no page: %v", kind.name, err)
			continue
		}
		for _, s := range own {
			if !strings.Contains(string(page), "\n| `"+s.path[len(s.path)-1]+"` |") {
				t.Errorf("the page of %s has no row for %s", kind.name, s.Key)
			}
		}
	}
}
