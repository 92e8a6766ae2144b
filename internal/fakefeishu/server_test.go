package fakefeishu

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/internal/longtest"
)

func TestMain(m *testing.M) { longtest.Main(m) }

// call asks the server in this process.
func call(t *testing.T, s *Server, method, path, token string, in any) (status int, got map[string]any) {
	t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, "http://fake/open-apis/"+path, strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := s.Transport().RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return res.StatusCode, got
}

func token(t *testing.T, s *Server) string {
	t.Helper()
	_, got := call(t, s, "POST", "auth/v3/tenant_access_token/internal", "", map[string]string{
		"app_id": s.Options().AppID, "app_secret": s.Options().AppSecret,
	})
	text, _ := got["tenant_access_token"].(string)
	if text == "" {
		t.Fatalf("no token: %v", got)
	}
	return text
}

func card(text string) string {
	data, _ := json.Marshal(map[string]any{
		"schema": "2.0", "config": map[string]any{"update_multi": true},
		"body": map[string]any{"elements": []any{map[string]any{"tag": "markdown", "content": text}}},
	})
	return string(data)
}

func TestATokenEndsAndIsTheSameUntilHalfAnHourBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(nil)
		defer s.Close()
		first := token(t, s)
		time.Sleep(80 * time.Minute)
		if got := token(t, s); got != first {
			t.Errorf("after 80 minutes it is %q", got)
		}
		time.Sleep(15 * time.Minute)
		second := token(t, s)
		if second == first {
			t.Error("after 95 minutes it is the same")
		}
		for name, code := range map[string]float64{first: 0, second: 0, "t-none": 99991663, "": 99991661} {
			if _, got := call(t, s, "GET", "bot/v3/info", name, nil); got["code"] != code {
				t.Errorf("%q: %v", name, got)
			}
		}
		time.Sleep(30 * time.Minute)
		if _, got := call(t, s, "GET", "bot/v3/info", first, nil); got["code"] != 99991663.0 {
			t.Errorf("after its end: %v", got)
		}
	})
}

func TestAMessageIsSentOnceForAUUIDWithinAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(nil)
		defer s.Close()
		s.AddChat("oc", "p2p")
		send := func(text string) {
			status, got := call(t, s, "POST", "im/v1/messages?receive_id_type=chat_id", token(t, s), map[string]string{
				"receive_id": "oc", "msg_type": "text", "content": `{"text":"` + text + `"}`, "uuid": "u",
			})
			if status != http.StatusOK || got["code"] != 0.0 {
				t.Errorf("%d %v", status, got)
			}
		}
		send("one")
		time.Sleep(59 * time.Minute)
		send("two")
		if got := s.Texts("oc"); len(got) != 1 || got[0] != "one" {
			t.Errorf("%q", got)
		}
		time.Sleep(2 * time.Minute)
		send("three")
		if got := s.Texts("oc"); len(got) != 2 {
			t.Errorf("%q", got)
		}
	})
}

func TestWhatThePlatformRefuses(t *testing.T) {
	s := New(&Options{Limited: true})
	defer s.Close()
	s.AddChat("oc", "group")
	s.AddChat("oc_closed", "group")
	s.CloseChat("oc_closed", 230018)
	tok := token(t, s)
	for name, tt := range map[string]struct {
		chat, kind, content string
		code                float64
	}{
		"a card":                   {"oc", "interactive", card("hi"), 0},
		"a card that is too large": {"oc", "interactive", card(strings.Repeat("x", 31<<10)), 230025},
		"a card of version 1":      {"oc", "interactive", `{"elements":[]}`, 230099},
		"a card with more in it":   {"oc", "interactive", strings.Replace(card("hi"), `"tag"`, `"x":1,"tag"`, 1), 230099},
		"no card":                  {"oc", "interactive", `{`, 230099},
		"a text":                   {"oc", "text", `{"text":"` + strings.Repeat("x", 140<<10) + `"}`, 0},
		"a text of nothing":        {"oc", "text", `{"text":""}`, 230001},
		"another kind":             {"oc", "dance", `{}`, 230001},
		"another chat":             {"oc_other", "text", `{"text":"x"}`, 230002},
		"a chat that is closed":    {"oc_closed", "text", `{"text":"x"}`, 230018},
	} {
		status, got := call(t, s, "POST", "im/v1/messages?receive_id_type=chat_id", tok, map[string]string{"receive_id": tt.chat, "msg_type": tt.kind, "content": tt.content})
		if got["code"] != tt.code || (status == http.StatusOK) != (tt.code == 0) {
			t.Errorf("%s: %d %v", name, status, got)
		}
	}
	var id string
	for _, m := range s.Ours("oc") {
		if m.Type == "interactive" {
			id = m.ID
		}
	}
	codes := map[any]int{}
	for range 7 {
		_, got := call(t, s, "PATCH", "im/v1/messages/"+id, tok, map[string]string{"content": card(`<at id=all></at>`)})
		codes[got["code"]]++
	}
	if codes[0.0] != 5 || codes[230020.0] != 2 {
		t.Errorf("seven changes at once: %v", codes)
	}
	if told := s.Ours("oc")[0].Mentions; len(told) == 0 && len(s.Ours("oc")[1].Mentions) == 0 {
		t.Error("a mention of all tells nobody")
	}
}

func TestAnEventIsPostedUntilItIsAnsweredAsItShouldBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		s := New(&Options{Door: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n++
			switch n {
			case 1:
				w.WriteHeader(http.StatusInternalServerError)
			case 2:
				select { // too late
				case <-r.Context().Done():
				case <-time.After(10 * time.Second):
				}
			}
		})})
		defer s.Close()
		s.AddChat("oc", "p2p")
		e, _ := s.Say(Said{Chat: "oc", From: "ou", Text: "hi"})
		began := time.Now()
		s.Deliver(e)
		if err := s.Await(context.Background(), func() bool { return len(s.Posts()) == 3 }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(24 * time.Hour)
		var after []time.Duration
		for _, p := range s.Posts() {
			after = append(after, p.At.Sub(began))
		}
		if len(after) != 3 || after[1] != 15*time.Second || after[2] != 5*time.Minute+18*time.Second {
			t.Errorf("posted after %v", after)
		}
	})
}
