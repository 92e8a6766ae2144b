//go:build nightly

package attacks

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/fakefeishu"
	"github.com/lingserve/lingserve/internal/fakeproviders"
	"github.com/lingserve/lingserve/internal/fakeslack"
)

// event is a message to a channel as its platform sends it: signed as of a time, under an id that is the same when it is sent again.
type event struct {
	channel string
	status  int // of one that is taken
	make    func(t *testing.T, v *victim, id, word string, at time.Time) (http.Header, []byte)
}

var events = []event{
	{"hook", 202, func(t *testing.T, v *victim, id, word string, at time.Time) (http.Header, []byte) {
		body := `{"sender":{"id":"` + id + `"},"conversation":{"id":"` + id + `","kind":"direct"},"text":"` + word + `"}`
		return hookHeaders(t, id, body, at), []byte(body)
	}},
	{"slack", 200, func(t *testing.T, v *victim, id, word string, at time.Time) (http.Header, []byte) {
		body := v.slack.Envelope(map[string]any{
			"type": "message", "channel": "D" + id, "channel_type": "im", "user": "U" + id, "text": word, "ts": "1700000002." + digits(id),
		})
		h := http.Header{}
		fakeslack.Sign(h, slackSecret, body, at)
		return h, body
	}},
	{"feishu", 200, func(t *testing.T, v *victim, id, word string, at time.Time) (http.Header, []byte) {
		v.feishu.AddChat("oc_"+id, "p2p")
		said, _ := v.feishu.Say(fakefeishu.Said{Chat: "oc_" + id, From: "ou_" + id, Text: word})
		r := v.feishu.Request(t.Context(), said)
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		fakefeishu.Sign(r, feishuKey, body, at)
		return r.Header, body
	}},
	{"telegram", 200, func(t *testing.T, v *victim, id, word string, at time.Time) (http.Header, []byte) { // which signs nothing, and has no time
		n := digits(id)
		body := `{"update_id":` + n + `,"message":{"message_id":` + n + `,"date":` + itoa(int(time.Now().Unix())) + `,"chat":{"id":` + n + `,"type":"private","first_name":"A"},` +
			`"from":{"id":` + n + `,"is_bot":false,"first_name":"A"},"text":"` + word + `"}}`
		return http.Header{"X-Telegram-Bot-Api-Secret-Token": {telegramSecret}}, []byte(body)
	}},
}

// digits makes a number of a word.
func digits(word string) string {
	return "9" + strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, word)
}

// SE-19: what a platform has not sent, has not sent now, or has sent before, does nothing.
func TestAForgedOrRepeatedEventDoesNothing(t *testing.T) { // SE-19
	v := server(t)
	for _, e := range events {
		t.Run(e.channel, func(t *testing.T) {
			word := v.answer(fakeproviders.Answer{Text: "blue"})
			asked := func() int { return strings.Count(v.requests.String(), word) }
			h, body := e.make(t, v, word, word, time.Now())
			for name, change := range map[string]func(http.Header, []byte) (http.Header, []byte){
				"nothing that proves it": func(_ http.Header, b []byte) (http.Header, []byte) { return http.Header{}, b },
				"another body": func(h http.Header, b []byte) (http.Header, []byte) {
					return h, bytes.Replace(b, []byte(`"`), []byte(` "`), 1)
				},
				"a body with more": func(h http.Header, b []byte) (http.Header, []byte) { return h, append(bytes.Clone(b), ' ') },
				"half of the body": func(h http.Header, b []byte) (http.Header, []byte) { return h, b[:len(b)/2] },
				"no body":          func(h http.Header, b []byte) (http.Header, []byte) { return h, nil },
				"empty proofs": func(h http.Header, b []byte) (http.Header, []byte) {
					return each(h, func(string) string { return "" }), b
				},
				"half of the proofs": func(h http.Header, b []byte) (http.Header, []byte) {
					return each(h, func(s string) string { return s[:len(s)/2] }), b
				},
				"proofs and more": func(h http.Header, b []byte) (http.Header, []byte) {
					return each(h, func(s string) string { return s + "0" }), b
				},
				"proofs in capitals": func(h http.Header, b []byte) (http.Header, []byte) { return each(h, swapCase), b },
				"an hour ago": func(http.Header, []byte) (http.Header, []byte) {
					return e.make(t, v, word, word, time.Now().Add(-time.Hour))
				},
				"in an hour": func(http.Header, []byte) (http.Header, []byte) {
					return e.make(t, v, word, word, time.Now().Add(time.Hour))
				},
				"a time in other words": func(h http.Header, b []byte) (http.Header, []byte) {
					return each(h, func(s string) string { return "+" + s }), b
				},
				"the proof of another one": func(h http.Header, b []byte) (http.Header, []byte) { return other(t, v, e), b },
			} {
				switch {
				case e.channel == "telegram" && (strings.Contains(name, "body") || strings.Contains(name, "hour") || strings.HasPrefix(name, "the proof")):
					continue // its proof is a secret, the same for all
				case e.channel == "feishu" && name == "proofs in capitals":
					continue // hexadecimal digits
				}
				fh, fb := change(h.Clone(), body)
				got := v.send(t, e.channel, fh, fb)
				if got.status != 401 {
					t.Errorf("%s: %d %s", name, got.status, got.body)
				}
			}
			if asked() != 0 {
				t.Fatalf("a forged one was told to the model %d times", asked())
			}
			if got := v.send(t, e.channel, h, body); got.status != e.status {
				t.Fatalf("a good one: %d %s", got.status, got.body)
			}
			v.eventually(t, "the model is asked", func() bool { return asked() > 0 })
			before := asked()
			for range 5 {
				if got := v.send(t, e.channel, h, body); got.status != e.status {
					t.Errorf("once more: %d %s", got.status, got.body)
				}
			}
			// One that comes after those is answered, and they are not.
			last := v.answer(fakeproviders.Answer{Text: "blue"})
			h, body = e.make(t, v, last, last, time.Now())
			if got := v.send(t, e.channel, h, body); got.status != e.status {
				t.Fatalf("another good one: %d %s", got.status, got.body)
			}
			v.eventually(t, "the model is asked", func() bool { return strings.Contains(v.requests.String(), last) })
			if got := asked(); got != before {
				t.Errorf("it was told to the model %d times", got)
			}
		})
	}
}

// each changes the values of headers that prove something.
func each(h http.Header, change func(string) string) http.Header {
	for name, values := range h {
		if name != "Content-Type" {
			h[name] = []string{change(values[0])}
		}
	}
	return h
}

func swapCase(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return r
	}, s)
}

// other is the proof of another event of the channel.
func other(t *testing.T, v *victim, e event) http.Header {
	h, _ := e.make(t, v, "other1", "other", time.Now())
	return h
}

// SE-19: an event for one channel is none for another, and a channel without a door of this kind has none.
func TestAnEventIsForItsChannelAlone(t *testing.T) { // SE-19
	v := server(t)
	for _, e := range events {
		for _, channel := range []string{"hook", "slack", "feishu", "telegram", "web", "cli", "HOOK", "hook@", "hook%00", "nobody"} {
			if channel == e.channel {
				continue
			}
			word := v.answer(fakeproviders.Answer{Text: "blue"})
			h, body := e.make(t, v, word, word, time.Now())
			if got := v.send(t, channel, h, body); got.status != 401 && got.status != 404 && got.status != 400 {
				t.Errorf("%s for %s: %d %s", channel, e.channel, got.status, got.body)
			}
			if strings.Contains(v.requests.String(), word) {
				t.Errorf("%s for %s: the model was told", channel, e.channel)
			}
		}
	}
}

// SE-09, FT-28: a request that is repeated under its key is the same run, and a key says nothing of the runs of others.
func TestARepeatedRequestStartsNothing(t *testing.T) { // FT-28
	v := server(t)
	word := v.answer(fakeproviders.Answer{Text: "blue"})
	first := v.do(t, "POST", "/v1/runs", run("text", word), "Idempotency-Key: "+word)
	for range 5 {
		again := v.do(t, "POST", "/v1/runs", run("text", word), "Idempotency-Key: "+word)
		if again.status != 200 || again.body != first.body || again.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%d %v: %s", again.status, again.header, again.body)
		}
	}
	if got := v.do(t, "POST", "/v1/runs", run("text", word+" and more"), "Idempotency-Key: "+word); got.status != 422 || strings.Contains(got.body, "blue") {
		t.Errorf("%d %s", got.status, got.body)
	}
	if n := strings.Count(v.requests.String(), word); n != 1 {
		t.Errorf("the model was asked %d times", n)
	}
	var d struct{ Run string }
	if err := json.Unmarshal([]byte(first.body), &d); err != nil || len(d.Run) != 26 {
		t.Errorf("%v: %s", err, first.body)
	}
}
