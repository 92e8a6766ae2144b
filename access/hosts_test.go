package access_test

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/lingserve/lingserve/access"
)

func hosts(t testing.TB, list ...string) *access.Hosts {
	t.Helper()
	h, err := access.NewHosts(list)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// SE-12: a name that was led here is not one of the server's.
func TestAServerAnswersUnderItsNamesOnly(t *testing.T) {
	h := hosts(t, "chat.example.com", "*.apps.example.com", " Upper.Example.com ")
	for host, want := range map[string]bool{
		"localhost": true, "localhost:8080": true, "LOCALHOST:8080": true, "localhost.": true, "app.localhost:80": true,
		"127.0.0.1": true, "127.0.0.1:8080": true, "[::1]": true, "[::1]:8080": true, "10.1.2.3:8080": true, "[2001:db8::1]:80": true,
		"chat.example.com": true, "Chat.Example.Com:443": true, "chat.example.com.": true, "upper.example.com": true,
		"a.apps.example.com": true, "a.b.apps.example.com": true,

		"": false, "evil.test": false, "evil.test:8080": false, "localhost.evil.test": false, "evillocalhost": false, "chat.example.com.evil.test": false,
		"evilchat.example.com": false, "apps.example.com": false, "evilapps.example.com": false, "example.com": false,
		"127.0.0.1.evil.test": false, "127.0.0.1.nip.io": false, "127.1": false, "2130706433": false, "0x7f.0.0.1": false, "127.0.0.1.": true,
		"localhost:": false, "localhost:80:80": false, "localhost:http": false, "localhost:123456": false, ":8080": false,
		"localhost\x00": false, "localhost evil.test": false, "localhost,evil.test": false, "localhost@evil.test": false, "localhost/evil": false,
		"[::1": false, "::1": false, "[127.0.0.1]": false, "[evil.test]": false, "[::1]evil.test": false, "[::1]:80:80": false,
		"lоcalhost": false, // with a Cyrillic о
		"*":         false, ".": false, "..": false, ".localhost": false, ".apps.example.com": false,
	} {
		if got := h.Allows(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
	r := httptest.NewRequest("GET", "http://evil.test/v1/runs", nil)
	if err := h.Check(r); !errors.Is(err, access.ErrHost) || access.ErrHost.Status != 403 {
		t.Error(err)
	}
	if err := hosts(t, "*").Check(r); err != nil {
		t.Error(err)
	}
}

func TestNamesOfHostsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, text := range []string{"", "chat.example.com:8080", "https://chat.example.com", "chat.example.com/", "*.", "a.*.example.com", "*example.com", ".example.com", "bücher.example", "a b"} {
		if _, err := access.NewHosts([]string{text}); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func ExampleHosts() {
	hosts, err := access.NewHosts([]string{"chat.example.com"})
	if err != nil {
		panic(err)
	}
	fmt.Println(hosts.Allows("chat.example.com"), hosts.Allows("localhost:8080"), hosts.Allows("evil.test"))
	// Output: true true false
}
