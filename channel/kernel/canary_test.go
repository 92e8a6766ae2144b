package kernel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/store/db"
)

const canary = "secret4711"

func secret(place string) string { return canary + "-" + place }

// setCanaries makes the message one of a group, with a canary in each text, name, list and secret.
func setCanaries(s *rig) {
	s.group(true)
	f := &s.facts
	f.From = secret("from")
	f.Sender = channel.SenderFacts{ID: "42", Name: secret("name"), Username: secret("username"), Tag: secret("tag"), DisplayLabel: secret("label"), Roles: []string{secret("role")}}
	f.Conversation.Label = secret("conversation")
	f.Message = channel.MessageFacts{
		RawBody: secret("raw"), Body: secret("body"), BodyForAgent: secret("agent"), CommandBody: secret("command"), EnvelopeFrom: secret("envelope"),
		SenderLabel: secret("sender"), Preview: secret("preview"),
	}
	f.Supplemental = channel.SupplementalFacts{
		Quote:     &channel.Quote{ID: "6", Body: secret("quote"), Sender: secret("quoted"), SenderAllowed: channel.Yes},
		Forwarded: &channel.Forwarded{From: secret("forwarded"), SenderAllowed: channel.Yes},
		Thread:    &channel.Thread{StarterBody: secret("starter"), HistoryBody: secret("thread"), SenderAllowed: channel.Yes},
		Untrusted: []channel.Untrusted{{Kind: "topic", Text: secret("topic")}}, GroupSystemPrompt: secret("prompt"),
	}
	f.Media = []channel.MediaFact{{URL: "https://user:" + secret("password") + "@example.com/a.png", Kind: channel.MediaImage}, {Path: "/nowhere/" + secret("path"), Kind: channel.MediaImage}}
	f.Access.Group.AllowFrom, f.Access.DM.AllowFrom = []string{secret("list")}, []string{secret("list")}
	s.in = &channel.Input{ID: "1", RawText: secret("input"), TextForAgent: secret("input"), ConversationID: "42", SenderID: "42"}
}

// Section 18.6: whatever becomes of a message.
func TestMessagesAreInNoLogOrError(t *testing.T) {
	panics := func(at string) func(*rig) {
		return func(s *rig) {
			s.do = func(hook string) error {
				if hook == at {
					panic(secret("panic"))
				}
				return nil
			}
		}
	}
	delivers := func(err error) func(*rig) {
		return func(s *rig) {
			s.platform.answer = func(string) (channel.Receipt, error) { return channel.Receipt{}, err }
		}
	}
	unmentioned := func(s *rig) {
		s.facts.Access.Mentions.WasMentioned, s.facts.Access.Group.RequireMention = false, true
	}
	for name, set := range map[string]func(*rig){
		"visible":       func(*rig) {},
		"denied":        func(s *rig) { s.facts.Access.Group.Policy = channel.PolicyAllowlist },
		"no policy":     func(s *rig) { s.facts.Access = channel.AccessFacts{} },
		"not addressed": unmentioned,
		"bot":           func(s *rig) { s.facts.Sender.IsBot = true },
		"observed": func(s *rig) {
			s.admission = channel.Admission{Kind: channel.ObserveOnly, Reason: channel.ReasonObserver}
		},
		"a wrong reason": func(s *rig) {
			s.admission = channel.Admission{Kind: channel.Drop, Reason: channel.Reason(secret("reason"))}
		},
		"a wrong detail": func(s *rig) {
			s.admission = channel.Admission{Kind: channel.Drop, Reason: channel.ReasonChannelLocal, Detail: secret("detail")}
		},
		"facts that lack":    func(s *rig) { s.facts.Reply.To = "" },
		"panic in preflight": panics("preflight"), "panic in resolve": panics("resolve"), "panic in record": panics("record"),
		"panic in dispatch": panics("dispatch"), "panic in finalize": panics("finalize"),
		"not sent": delivers(&channel.NotSentError{Err: errors.New("chat not found")}), "unknown": delivers(errTest),
		"kept": delivers(&channel.NotSentError{Err: errTest, Retryable: true}),
		"a panic sending": func(s *rig) {
			s.platform.answer = func(string) (channel.Receipt, error) { panic(secret("panic")) }
		},
		"the loader fails": func(s *rig) {
			unmentioned(s)
			s.pre.History.LoadMedia = func(context.Context) ([]channel.MediaFact, error) {
				return []channel.MediaFact{{Path: secret("loaded"), Kind: channel.MediaImage}}, nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, d *db.DB) {
				var log bytes.Buffer
				s := newRig()
				setCanaries(s)
				set(s)
				logger := slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
				s.kernel.Log, s.kernel.Observer = logger, channel.NewSlogObserver(logger)
				s.kernel.Store, s.kernel.Window = d.Events(), channel.NewWindow(nil, channel.WindowOptions{Log: logger})
				s.delivery.Durable = true
				q := kernel.NewQueue(s.kernel, kernel.QueueOptions{Replica: "a", Log: logger})
				ctx, stop := context.WithCancel(t.Context())
				var errs []error
				h := kernel.Handler{Channel: "fake", Run: func(ctx context.Context, _ *kernel.Claimed, m kernel.Meta) (channel.Result, error) {
					r, err := kernel.Run(ctx, s.kernel, m, "raw", s.adapter())
					errs = append(errs, err)
					return r, err
				}, Sender: kernel.Sender{Send: func(ctx context.Context, out channel.Outbound) (channel.Receipt, error) {
					return s.platform.deliver(ctx, out.Block)
				}}}
				if _, err := q.Accept(ctx, kernel.Arrival{Key: channel.EventKey{Channel: "fake", Conversation: "42", ID: "1"}, Raw: []byte(secret("bytes"))}); err != nil {
					t.Fatal(err)
				}
				life := 2 * time.Minute
				if name == "kept" { // until it is given up
					life = 25 * time.Hour
				}
				time.AfterFunc(life, stop)
				if err := q.Serve(ctx, h, nil); err != nil {
					t.Error(err)
				}
				q.Close()
				if log.Len() == 0 {
					t.Fatal("nothing is logged")
				}
				for what, text := range map[string]string{"log": log.String(), "error": fmt.Sprintf("%v %q", errs, errs)} {
					if at := strings.Index(text, canary); at >= 0 {
						t.Errorf("the %s has %q", what, text[max(0, at-200):min(len(text), at+60)])
					}
				}
			})
		})
	}
}

// Section 18.4: by no way.
func TestADeniedSendersWordsReachNoAgent(t *testing.T) {
	for by, deny := range map[string]func(*channel.Facts){
		"sender": func(f *channel.Facts) { f.Access.Group.Policy = channel.PolicyDisabled },
		"route":  func(f *channel.Facts) { f.Access.Group.RouteAllowed = false },
		"bot":    func(f *channel.Facts) { f.Sender.IsBot = true },
		"list":   func(f *channel.Facts) { f.Access.Group.Policy = channel.PolicyAllowlist },
	} {
		t.Run(by, func(t *testing.T) {
			s := newRig()
			setCanaries(s)
			s.facts.Access.Mentions.WasMentioned, s.facts.Access.Group.RequireMention = false, true
			deny(&s.facts)
			s.kernel.Window = channel.NewWindow(nil, channel.WindowOptions{})
			loaded := false
			access := s.facts.Access
			s.pre = channel.Preflight{Access: &access, Message: s.facts.Message, Media: s.facts.Media, History: channel.HistoryHint{
				RecordOnDrop: true, Sender: s.facts.Sender, Conversation: s.facts.Conversation,
				LoadMedia: func(context.Context) ([]channel.MediaFact, error) { loaded = true; return nil, nil },
			}}
			for id, admission := range map[string]channel.Admission{"1": {}, "2": {Kind: channel.Drop, Reason: channel.ReasonMissingMention, RecordHistory: true}} {
				s.pre.Admission, s.in.ID, s.facts.MessageID = admission, id, id
				if r, err := s.run(t.Context()); err != nil || r.Admission.Kind != channel.Drop || r.Context != nil {
					t.Fatalf("got %+v, %v", r.Admission, err)
				}
			}
			if slices.Contains(s.calls, "dispatch") || loaded {
				t.Errorf("got the calls %q, media loaded: %t", s.calls, loaded)
			}
			next := newRig()
			next.group(true)
			next.kernel.Window = s.kernel.Window
			r, err := next.run(t.Context())
			if text, jsonErr := json.Marshal(r.Context); err != nil || jsonErr != nil || bytes.Contains(text, []byte(canary)) {
				t.Errorf("the next turn is told %s, %v", text, err)
			}
		})
	}
}
