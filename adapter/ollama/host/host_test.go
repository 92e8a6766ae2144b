package host

import (
	"net/url"
	"strings"
	"testing"
)

func TestParseReadsWhatOllamaReads(t *testing.T) {
	for _, row := range []struct{ name, host, want string }{
		{"nothing", "", "http://127.0.0.1:11434"},
		{"white space", "  \t", "http://127.0.0.1:11434"},
		{"an address", "1.2.3.4", "http://1.2.3.4:11434"},
		{"an address with a port", "1.2.3.4:1234", "http://1.2.3.4:1234"},
		{"a name", "gpu-box", "http://gpu-box:11434"},
		{"a name with a port", "gpu-box.lan:1234", "http://gpu-box.lan:1234"},
		{"a port", ":1234", "http://127.0.0.1:1234"},
		{"a name and an empty port", "host:", "http://host:11434"},
		{"http", "http://host", "http://host:80"},
		{"http with a port", "http://host:11434", "http://host:11434"},
		{"https", "https://host", "https://host:443"},
		{"https with a port", "https://host:8443", "https://host:8443"},
		{"a scheme in capitals", "HTTPS://host", "https://host:443"},
		{"a scheme alone", "https://", "https://127.0.0.1:443"},
		{"a slash at the end", "http://host:1/", "http://host:1"},
		{"a path", "https://host/ollama", "https://host:443/ollama"},
		{"a path without a scheme", "host:1/a/b/", "http://host:1/a/b"},
		{"a path with escapes", "http://host/a%20b", "http://host:80/a%20b"},
		{"everywhere", "0.0.0.0", "http://127.0.0.1:11434"},
		{"everywhere with a port", "0.0.0.0:11434", "http://127.0.0.1:11434"},
		{"everywhere with a scheme", "http://0.0.0.0:1234", "http://127.0.0.1:1234"},
		{"everywhere in IPv6", "[::]:11434", "http://[::1]:11434"},
		{"everywhere in IPv6, bare", "::", "http://[::1]:11434"},
		{"everywhere in IPv4 in IPv6", "[::ffff:0.0.0.0]:1", "http://127.0.0.1:1"},
		{"IPv6", "::1", "http://[::1]:11434"},
		{"IPv6 in brackets", "[::1]", "http://[::1]:11434"},
		{"IPv6 with a port", "[fe80::1]:1234", "http://[fe80::1]:1234"},
		{"IPv6 with a zone", "[fe80::1%eth0]:1234", "http://[fe80::1%25eth0]:1234"},
		{"IPv6 with a scheme", "https://[2001:db8::1]", "https://[2001:db8::1]:443"},
		{"in quotation marks", `"1.2.3.4"`, "http://1.2.3.4:11434"},
		{"in other ones, with spaces", ` ' host:1 ' `, "http://host:1"},
		{"the cloud", "ollama.com", "https://ollama.com:443"},
		{"the cloud with a scheme", "https://ollama.com", "https://ollama.com:443"},
		{"a login", "http://user:pa%3Ass@host", "http://user:pa%3Ass@host:80"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got, err := parse(row.host); got != row.want || err != nil {
				t.Errorf("%q: %q, %v; want %q", row.host, got, err, row.want)
			}
		})
	}
}

func TestParseRefusesWhatIsNoHost(t *testing.T) {
	for name, host := range map[string]string{
		"a port that is none": "host:abc", "a port too large": "host:65536", "a port below zero": "host:-1", "port zero": "host:0",
		"another scheme": "ftp://host", "a socket": "unix:///run/ollama.sock", "two ports": "host:1:2", "a query": "http://host/?a=b",
		"a fragment": "http://host/#a", "a space": "my host", "a query without a path": "http://host?a=b",
		"a control character": "ho\x00st", "a login and no host": "user:CANARY@a b",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse(host)
			if err == nil {
				t.Fatalf("%q: %q", host, got)
			}
			if !strings.Contains(err.Error(), "expected a host") || strings.Contains(err.Error(), "CANARY") {
				t.Errorf("%v", err)
			}
		})
	}
}

// Whatever is taken is a URL with a host and a port, and means the same when it is read again.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"", ":1", "0.0.0.0", "[::]:1", "http://a:b@c/d", "ollama.com", "https://", "fe80::1%eth0", `"'a'"`, "a/b//c/../d", "/.", "a/./", "a/.."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parse(s)
		if err != nil {
			return
		}
		u, err := url.Parse(got)
		if err != nil || u.Hostname() == "" || u.Port() == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" {
			t.Fatalf("%q: %q, %v", s, got, err)
		}
		if again, err := parse(got); again != got || err != nil {
			t.Fatalf("%q: %q, then %q, %v", s, got, again, err)
		}
	})
}

// parse is Parse with the URL as text.
func parse(s string) (string, error) {
	u, err := Parse(s)
	if err != nil {
		return "", err
	}
	return u.String(), nil
}
