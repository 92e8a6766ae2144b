package platform_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/lingserve/lingserve/channel/platform"
)

// Calls by HTTP/2 add it to the protocols of the transport, and the hosts of platforms choose it where they can.
func TestWebSocketOpensAfterCallsByHTTP2(t *testing.T) {
	upgrader := websocket.Upgrader{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !websocket.IsWebSocketUpgrade(r) {
			_, _ = io.WriteString(w, r.Proto)
			return
		}
		conn, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer conn.Close()
		_ = conn.WriteMessage(websocket.TextMessage, []byte("hello"))
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()

	client := server.Client()
	res, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	proto, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if string(proto) != "HTTP/2.0" {
		t.Fatalf("the call used %s", proto)
	}
	conn, res, err := platform.NewDialer(t.Context(), client, false).DialContext(t.Context(), strings.Replace(server.URL, "https:", "wss:", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	defer conn.Close()
	if _, said, err := conn.ReadMessage(); err != nil || string(said) != "hello" {
		t.Errorf("got %q, %v", said, err)
	}
}
