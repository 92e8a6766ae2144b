package channel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel"
)

// counted is metrics as whoever exports them has them.
type counted struct{ lines []string }

func (c *counted) Turn(ch string, o channel.Outcome, r channel.Reason) {
	c.lines = append(c.lines, fmt.Sprint(channel.MetricTurns, ch, o, r))
}

func (c *counted) Stage(ch string, s channel.Stage, _ time.Duration) {
	c.lines = append(c.lines, fmt.Sprint(channel.MetricStageSeconds, ch, s))
}

const canary = "tweet4711"

// tweet makes a different canary of each place that there is one in.
func tweet(where string) string { return canary + "-" + where }

// ofCanaries is a group message with a canary wherever somebody's words, names, lists or secrets are.
func ofCanaries(s *scene) {
	s.group(true)
	f := &s.facts
	f.From = tweet("from")
	f.Sender = channel.SenderFacts{
		ID: "42", Name: tweet("name"), Username: tweet("username"), Tag: tweet("tag"), DisplayLabel: tweet("label"), Roles: []string{tweet("role")},
	}
	f.Conversation.Label = tweet("conversation")
	f.Message = channel.MessageFacts{
		RawBody: tweet("raw"), Body: tweet("body"), BodyForAgent: tweet("agent"), CommandBody: tweet("command"), EnvelopeFrom: tweet("envelope"),
		SenderLabel: tweet("sender"), Preview: tweet("preview"),
	}
	f.Supplemental = channel.SupplementalFacts{
		Quote:     &channel.Quote{ID: "6", Body: tweet("quote"), Sender: tweet("quoted"), SenderAllowed: channel.Yes},
		Forwarded: &channel.Forwarded{From: tweet("forwarded"), SenderAllowed: channel.Yes},
		Thread:    &channel.Thread{StarterBody: tweet("starter"), HistoryBody: tweet("thread"), SenderAllowed: channel.Yes},
		Untrusted: []channel.Untrusted{{Kind: "topic", Text: tweet("topic")}}, GroupSystemPrompt: tweet("prompt"),
	}
	f.Media = []channel.MediaFact{
		{URL: "https://user:" + tweet("password") + "@example.com/a.png", Kind: channel.MediaImage},
		{Path: "/nowhere/" + tweet("path"), Kind: channel.MediaImage},
	}
	f.Access.Group.AllowFrom, f.Access.DM.AllowFrom = []string{tweet("list")}, []string{tweet("list")}
	s.in = &channel.Input{ID: "1", RawText: tweet("input"), TextForAgent: tweet("input"), ConversationID: "42", SenderID: "42"}
}

// CH-193, CH-122, CH-104, and section 18.6: whatever becomes of a message.
func TestNoWordOfAMessageIsInALogAMetricAVerdictOrAnError(t *testing.T) {
	panics := func(at string) func(*scene) {
		return func(s *scene) {
			s.do = func(hook string) error {
				if hook == at {
					panic(tweet("panic"))
				}
				return nil
			}
		}
	}
	cases := map[string]func(*scene){
		"visible": func(*scene) {},
		"denied": func(s *scene) {
			s.facts.Access.Group.Policy = channel.PolicyAllowlist
		},
		"no policy": func(s *scene) { s.facts.Access = channel.AccessFacts{} },
		"not addressed": func(s *scene) {
			s.facts.Access.Mentions.WasMentioned, s.facts.Access.Group.RequireMention = false, true
		},
		"bot":      func(s *scene) { s.facts.Sender.IsBot = true },
		"observed": func(s *scene) { s.plan = channel.Admission{Kind: channel.ObserveOnly, Reason: channel.ReasonObserver} },
		"a wrong admission": func(s *scene) {
			s.plan = channel.Admission{Kind: channel.Drop, Reason: channel.Reason(tweet("reason"))}
		},
		"a wrong detail": func(s *scene) {
			s.plan = channel.Admission{Kind: channel.Drop, Reason: channel.ReasonChannelLocal, Detail: tweet("detail")}
		},
		"facts that lack":    func(s *scene) { s.facts.Reply.To = "" },
		"panic in resolve":   panics("resolve"),
		"panic in record":    panics("record"),
		"panic in dispatch":  panics("dispatch"),
		"panic in finalize":  panics("finalize"),
		"panic in preflight": panics("preflight"),
		"not sent": func(s *scene) {
			s.platform.err = &channel.NotSentError{Err: errors.New("chat not found")}
		},
		"unknown": func(s *scene) { s.platform.err = errors.New("the connection was cut") },
		"the loader fails": func(s *scene) {
			s.facts.Access.Mentions.WasMentioned, s.facts.Access.Group.RequireMention = false, true
			s.pre.History.LoadMedia = func(context.Context) ([]channel.MediaFact, error) {
				return []channel.MediaFact{{Path: tweet("loaded"), Kind: channel.MediaImage}}, nil
			}
		},
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			var metrics counted
			s := newScene()
			ofCanaries(s)
			cases[name](s)
			logger := slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			s.kernel.Log, s.kernel.Observer = logger, channel.Observers{channel.NewSlogObserver(logger), channel.Count(&metrics)}
			s.kernel.Window = channel.NewWindow(nil, channel.WindowOptions{Log: logger})
			r, err := s.run(t.Context())
			if log.Len() == 0 || len(metrics.lines) == 0 {
				t.Fatal("nothing is logged or counted")
			}
			verdicts, jsonErr := json.Marshal(r.Verdicts)
			if jsonErr != nil {
				t.Fatal(jsonErr)
			}
			for what, text := range map[string]string{
				"log": log.String(), "metric": strings.Join(metrics.lines, "\n"), "verdict": string(verdicts), "error": fmt.Sprintf("%v %q", err, err),
			} {
				if at := strings.Index(text, canary); at >= 0 {
					t.Errorf("the %s has %q", what, text[max(0, at-200):min(len(text), at+60)])
				}
			}
		})
	}
}

// CH-193, section 18.4: by no way.
func TestADeniedSendersWordsReachNobody(t *testing.T) {
	for _, by := range []string{"sender", "route", "bot", "list"} {
		t.Run(by, func(t *testing.T) {
			s := newScene()
			ofCanaries(s)
			s.facts.Access.Mentions.WasMentioned, s.facts.Access.Group.RequireMention = false, true
			switch by {
			case "sender":
				s.facts.Access.Group.Policy = channel.PolicyDisabled
			case "route":
				s.facts.Access.Group.RouteAllowed = false
			case "bot":
				s.facts.Sender.IsBot = true
			case "list":
				s.facts.Access.Group.Policy = channel.PolicyAllowlist
			}
			s.kernel.Window = channel.NewWindow(nil, channel.WindowOptions{})
			loaded := false
			access := s.facts.Access
			s.pre = channel.Preflight{Access: &access, Message: s.facts.Message, Media: s.facts.Media, History: channel.HistoryHint{
				RecordOnDrop: true, Sender: s.facts.Sender, Conversation: s.facts.Conversation,
				LoadMedia: func(context.Context) ([]channel.MediaFact, error) {
					loaded = true
					return nil, nil
				},
			}}
			for _, admission := range []channel.Admission{{}, {Kind: channel.Drop, Reason: channel.ReasonMissingMention, RecordHistory: true}} {
				s.pre.Admission = admission
				if r, err := s.run(t.Context()); err != nil || r.Admission.Kind != channel.Drop || r.Context != nil {
					t.Fatalf("got %+v, %v, a context: %t", r.Admission, err, r.Context != nil)
				}
				s.in = new(*s.in)
				s.in.ID, s.facts.MessageID = "2", "2"
			}
			if slices.Contains(s.calls, "dispatch") || loaded {
				t.Errorf("got %q, media loaded: %t", s.calls, loaded)
			}
			// And whoever is heard next does not bring them.
			next := newScene()
			next.group(true)
			next.kernel.Window = s.kernel.Window
			r, err := next.run(t.Context())
			if err != nil || r.Context == nil {
				t.Fatalf("got %+v, %v", r, err)
			}
			if text, err := json.Marshal(r.Context); err != nil || bytes.Contains(text, []byte(canary)) {
				t.Errorf("the next turn is told %s, %v", text, err)
			}
		})
	}
}
