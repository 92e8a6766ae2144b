package webhook_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/channel/webhook"
	"github.com/lingserve/lingserve/internal/fakecallback"
)

func TestOnlyAddressesOfTheInternetAreCalled(t *testing.T) { // CH-184
	for _, good := range []string{"93.184.216.34", "8.8.8.8", "2606:2800:220:1:248:1893:25c8:1946", "::ffff:8.8.8.8"} {
		if !webhook.Public(netip.MustParseAddr(good)) {
			t.Errorf("%s is refused", good)
		}
	}
	for _, bad := range []string{
		"127.0.0.1", "127.9.9.9", "::1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "fd00::1", "169.254.169.254", "fe80::1", "fe80::1%eth0",
		"224.0.0.1", "ff02::1", "0.0.0.0", "0.1.2.3", "::", "100.64.0.1", "192.0.0.8", "198.18.0.1", "255.255.255.255", "240.0.0.1",
		"::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "fec0::1",
	} {
		if webhook.Public(netip.MustParseAddr(bad)) {
			t.Errorf("%s is called", bad)
		}
	}
	if webhook.Public(netip.Addr{}) {
		t.Error("no address is called")
	}
}

func TestTheAddressIsLookedAtWhenItIsDialed(t *testing.T) { // CH-184
	back := fakecallback.New(vectorSecret)
	server := httptest.NewServer(back)
	defer server.Close()
	port := server.URL[strings.LastIndexByte(server.URL, ':'):]
	for _, test := range []struct {
		name, host string
		private    []string
		taken      bool
	}{
		{"an address", "127.0.0.1", nil, false},
		{"a name that leads there", "localhost", nil, false},
		{"another host is named", "127.0.0.1", []string{"example.com"}, false},
		{"the host is named", "127.0.0.1", []string{"127.0.0.1"}, true},
		{"the host and port are named", "127.0.0.1", []string{"127.0.0.1" + port}, true},
		{"an address written otherwise", "2130706433", nil, false},
		{"IPv4 in IPv6", "[::ffff:127.0.0.1]", nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := len(back.Requests())
			c, err := webhook.New(webhook.Settings{Secret: vectorSecret, Callback: "http://" + test.host + port, AllowInsecure: true, AllowPrivate: test.private})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Transport().CloseIdleConnections()
			err = c.SendOnce(t.Context())
			if taken := err == nil; taken != test.taken || (len(back.Requests()) > before) != test.taken {
				t.Errorf("got %v", err)
			}
			if check := c.Check(t.Context()); (check == nil) != test.taken {
				t.Errorf("Check says %v", check)
			}
		})
	}
}

func TestAProxyOfTheEnvironmentIsNotAsked(t *testing.T) { // CH-184
	c, err := webhook.New(webhook.Settings{Secret: vectorSecret, Callback: "https://example.com"})
	if err != nil || c.Transport().Proxy != nil {
		t.Error("there is a proxy")
	}
}

func TestNoRedirectIsFollowed(t *testing.T) { // CH-184
	back := fakecallback.New(vectorSecret)
	server := httptest.NewServer(back)
	defer server.Close()
	c, err := webhook.New(webhook.Settings{Secret: vectorSecret, Callback: server.URL, AllowInsecure: true, AllowPrivate: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Transport().CloseIdleConnections()
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		back.Then(fakecallback.Step{Status: status, Location: server.URL + "/elsewhere"})
		if err := c.SendOnce(t.Context()); err == nil {
			t.Errorf("%d is taken for an answer", status)
		}
	}
	if n := len(back.Requests()); n != 3 {
		t.Errorf("there were %d requests", n)
	}
}

func TestAnAnswerIsReadUpToABoundAndShownToNobody(t *testing.T) { // CH-184
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		for range 1000 {
			if _, err := w.Write([]byte(strings.Repeat("secret ", 1000))); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	c, err := webhook.New(webhook.Settings{Secret: vectorSecret, Callback: server.URL + "/hook?token=secret", AllowInsecure: true, AllowPrivate: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Transport().CloseIdleConnections()
	err = c.SendOnce(t.Context())
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
	server.CloseClientConnections()
	server.Close()
	if err = c.SendOnce(t.Context()); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

func TestSettingsThatMakeNoSenseAreRefused(t *testing.T) { // CH-184
	for _, test := range []struct {
		name     string
		settings webhook.Settings
		want     string // "" is good
	}{
		{"the least", webhook.Settings{Secret: vectorSecret, Callback: "https://example.com/hook"}, ""},
		{"the reply in the answer", webhook.Settings{Secret: vectorSecret, Ack: webhook.AckResult}, ""},
		{"no secret", webhook.Settings{Callback: "https://example.com"}, "the secret is missing"},
		{"both", webhook.Settings{Secret: vectorSecret, Ack: webhook.AckResult, Callback: "https://example.com/hook"}, "callback is not used"},
		{"no callback", webhook.Settings{Secret: vectorSecret}, "callback is missing"},
		{"http", webhook.Settings{Secret: vectorSecret, Callback: "http://example.com"}, "allow_insecure"},
		{"http that is allowed", webhook.Settings{Secret: vectorSecret, Callback: "http://example.com", AllowInsecure: true}, ""},
		{"another scheme", webhook.Settings{Secret: vectorSecret, Callback: "file:///etc/passwd"}, "callback is not an address"},
		{"a password", webhook.Settings{Secret: vectorSecret, Callback: "https://a:b@example.com"}, "password"},
		{"another ack", webhook.Settings{Secret: vectorSecret, Ack: "maybe"}, "ack"},
		{"a bad callback secret", webhook.Settings{Secret: vectorSecret, CallbackSecret: "x", Callback: "https://example.com"}, "callback_secret"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := webhook.New(test.settings)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, expected %q", err, test.want)
			}
		})
	}
}
