package platform_test

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/markup"
	"github.com/lingserve/lingserve/channel/platform"
)

func TestABlockIsSentInSeveralMessages(t *testing.T) {
	broken, gone := errors.New("broken"), &platform.Kind{}
	for name, tt := range map[string]struct {
		count   int
		preview string // "lost" is not found, "bad" cannot be edited
		failAt  int    // 0: none fails
		ids     []string
		partial bool
		err     error
	}{
		"none":                 {},
		"two":                  {count: 2, ids: []string{"m0", "m1"}},
		"a preview":            {count: 2, preview: "p", ids: []string{"p", "m1"}},
		"a lost preview":       {count: 1, preview: "lost", ids: []string{"m0"}},
		"a preview that fails": {count: 1, preview: "bad", err: broken},
		"the first fails":      {count: 2, failAt: 1, err: broken},
		"the second fails":     {count: 3, failAt: 2, ids: []string{"m0"}, partial: true, err: broken},
	} {
		t.Run(name, func(t *testing.T) {
			b := channel.Block{Payload: channel.Payload{Text: strings.Repeat("word\n", tt.count)}}
			if tt.preview != "" {
				b.Preview = &channel.Receipt{MessageIDs: []string{tt.preview}}
			}
			p := platform.Poster{Limit: markup.Limit{N: 4}, Gone: []*platform.Kind{gone}, Post: func(_ context.Context, m *platform.Post) (string, error) {
				switch {
				case m.Edit == "bad" || m.N+1 == tt.failAt:
					return "", broken
				case m.Edit == "lost":
					return "", &platform.Refusal{Kind: gone}
				case m.Text != "word" || m.Plain != "word":
					t.Errorf("message %d is %+v", m.N, m)
				}
				return cmp.Or(m.Edit, "m"+string(rune('0'+m.N))), nil
			}}
			r, err := p.Deliver(t.Context(), b)
			part, partial := errors.AsType[*channel.PartialError](err)
			if !errors.Is(err, tt.err) || partial != tt.partial || partial && !slices.Equal(part.Receipt.MessageIDs, tt.ids) || !slices.Equal(r.MessageIDs, tt.ids) {
				t.Errorf("%+v, %v", r, err)
			}
			if suppressed := r.State == channel.Suppressed; suppressed != (tt.count == 0) {
				t.Errorf("the state is %s", r.State)
			}
		})
	}
	text, files := platform.TextAndFiles(&channel.Block{Payload: channel.Payload{Text: "see", Media: []channel.MediaFact{{Path: "/a"}, {URL: "https://b.test"}, {}}}})
	if text != "see\n\nhttps://b.test" || len(files) != 1 || files[0].Path != "/a" {
		t.Errorf("%q, %v", text, files)
	}
}

func TestRequestsThatAreNoEventsAreRefused(t *testing.T) {
	limit := func(h http.Header) (int64, bool) { return 5, h.Get("Secret") == "x" }
	for name, tt := range map[string]struct {
		method, secret, body string
		want                 int
	}{
		"an event":         {http.MethodPost, "x", "12345", http.StatusOK},
		"another method":   {http.MethodGet, "x", "", http.StatusMethodNotAllowed},
		"a wrong secret":   {http.MethodPost, "y", "12345", http.StatusUnauthorized},
		"too large a body": {http.MethodPost, "x", "123456", http.StatusRequestEntityTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			r, w := httptest.NewRequest(tt.method, "/", strings.NewReader(tt.body)), httptest.NewRecorder()
			r.Header.Set("Secret", tt.secret)
			body, ok := platform.ReadEvent(w, r, limit, "application/json")
			if w.Code != tt.want || ok != (tt.want == http.StatusOK) || ok && string(body) != tt.body {
				t.Errorf("status %d, %q, %t", w.Code, body, ok)
			}
		})
	}
	w := httptest.NewRecorder()
	if platform.Unavailable(w); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("status %d", w.Code)
	}
}

func TestMediaStoreOfSettings(t *testing.T) {
	for dir, limit := range map[string]int64{"": 0, "media": 5} {
		var s platform.Service
		s.Init(&platform.Settings{Media: dir, MaxMedia: limit}, "x", "")
		if (s.Files.Dir == "") != (dir == "") || limit == 0 && s.Files.Limit != 10<<20 || limit != 0 && s.Files.Limit != limit {
			t.Errorf("%+v", s.Files)
		}
	}
}

func TestAClientFollowsNoRedirects(t *testing.T) {
	asked := 0
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer elsewhere.Close()
	here := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer here.Close()
	for _, given := range []*http.Client{nil, here.Client()} {
		client, closeIdle := platform.NewClient(given, false)
		res, err := client.Get(here.URL)
		if err != nil || res.StatusCode != http.StatusTemporaryRedirect || asked != 0 {
			t.Errorf("%v, and it was asked elsewhere %d times", err, asked)
		}
		res.Body.Close()
		closeIdle()
	}
}
