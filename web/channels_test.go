package web

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// doors are channels of a test, by name.
type doors struct {
	hooks  map[string]http.Handler
	broken map[string]string
}

func (d doors) Webhook(name string) http.Handler { return d.hooks[name] }
func (d doors) Broken() map[string]string        { return d.broken }

// told answers with what it was told.
var told = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(http.StatusAccepted)
	fmt.Fprintf(w, "%s %v %s", body, err, r.Header.Get("X-Signature"))
})

func channelsBench(t *testing.T) *bench {
	return newBench(t, func(o *Options) {
		o.Channels = doors{hooks: map[string]http.Handler{"telegram": told}, broken: map[string]string{"support": "the token is not valid"}}
	}).serve()
}

// checkChannels is what can happen with a platform's event.
func (c *contract) checkChannels(t *testing.T) {
	b := channelsBench(t)
	for _, want := range []call{
		{"POST", "/v1/channels/telegram/webhook", `{"update_id":1}`, nil, 202, false},
		{"POST", "/v1/channels/nobody/webhook", `{}`, nil, 404, false},
		{"GET", "/readyz", "", nil, 200, false},
	} {
		t.Run("channels/"+want.method+" "+want.path, func(t *testing.T) { c.check(t, b, want) })
	}
}

func TestAnEventOfAPlatformReachesItsChannelAsItCame(t *testing.T) { // CH-171
	if resp := newBench(t, nil).serve().do("POST", "/v1/channels/telegram/webhook", `{}`); resp.StatusCode != http.StatusNotFound {
		t.Errorf("without channels: %s", resp.Status)
	}
	b := channelsBench(t)
	got := b.whole("POST", "/v1/channels/telegram/webhook", `{"update_id" : 1}`, "X-Signature: s")
	if got.Status != http.StatusAccepted || got.Body != `{"update_id" : 1} <nil> s` {
		t.Errorf("%+v", got)
	}
}

func TestAChannelThatDoesNotWorkShowsInReadyz(t *testing.T) { // CH-179
	got := channelsBench(t).whole("GET", "/readyz", "")
	if want := `{"status":"ready","version":"1.2.3","channels":{"support":"the token is not valid"}}` + "\n"; got.Status != http.StatusOK || got.Body != want {
		t.Errorf("%+v", got)
	}
}

// DA-02: bodies that no channel has verified have a part of the memory for all bodies, counted by the address that they come from.
func TestWebhookBodiesOfOneAddressTakeAPartOfTheMemory(t *testing.T) {
	b := newBench(t, func(o *Options) {
		o.Channels = doors{hooks: map[string]http.Handler{"telegram": told}}
		o.MaxBody, o.Limits.Bodies = 64<<10, 1<<20
	}).serve()
	send := func(address string, body io.Reader) string {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "http://localhost/v1/channels/telegram/webhook", body)
		r.RemoteAddr = address + ":1"
		w := httptest.NewRecorder()
		b.s.Handler().ServeHTTP(w, r)
		return w.Body.String()
	}
	most := strings.Repeat(" ", 200<<10)
	tail, more := io.Pipe()
	first := make(chan string, 1)
	go func() { first <- send("203.0.113.1", io.MultiReader(strings.NewReader(most), tail)) }()
	if _, err := more.Write([]byte("x")); err != nil { // which is read when all before it has been
		t.Fatal(err)
	}
	const refused = "too many of your request bodies"
	if got := send("203.0.113.1", strings.NewReader(most)); !strings.Contains(got, refused) {
		t.Errorf("a second body of the address: %.100q", got)
	}
	if got := send("203.0.113.2", strings.NewReader(most)); strings.Contains(got, refused) || !strings.Contains(got, "<nil>") {
		t.Errorf("a body of another address: %.100q", got)
	}
	more.Close()
	if got := <-first; !strings.Contains(got, "x <nil>") {
		t.Errorf("the first body: %.100q", got)
	}
}
