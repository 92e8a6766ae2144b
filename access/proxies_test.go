package access_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/access"
)

func proxies(t testing.TB, list ...string) access.Proxies {
	t.Helper()
	p, err := access.ParseProxies(list)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// SE-17: what a client says of its address changes nothing.
func TestTheClientIsTheLastAddressThatNoTrustedProxyHas(t *testing.T) {
	for name, tc := range map[string]struct {
		trusted []string
		peer    string
		headers []string
		want    string
	}{
		"no proxy":                           {nil, "203.0.113.7:4711", nil, "203.0.113.7"},
		"no proxy is trusted":                {nil, "203.0.113.7:4711", []string{"198.51.100.1"}, "203.0.113.7"},
		"the peer is not the proxy":          {[]string{"10.0.0.0/8"}, "203.0.113.7:4711", []string{"198.51.100.1"}, "203.0.113.7"},
		"a proxy":                            {[]string{"10.0.0.0/8"}, "10.1.2.3:80", []string{"198.51.100.1"}, "198.51.100.1"},
		"a proxy that says nothing":          {[]string{"10.0.0.0/8"}, "10.1.2.3:80", nil, "10.1.2.3"},
		"what the client has put in front":   {[]string{"10.0.0.0/8"}, "10.1.2.3:80", []string{"127.0.0.1, 10.9.9.9, 198.51.100.1"}, "198.51.100.1"},
		"in a header of its own":             {[]string{"10.0.0.0/8"}, "10.1.2.3:80", []string{"127.0.0.1", "198.51.100.1"}, "198.51.100.1"},
		"two proxies":                        {[]string{"10.0.0.0/8", "192.0.2.1"}, "10.1.2.3:80", []string{"6.6.6.6, 198.51.100.1, 192.0.2.1"}, "198.51.100.1"},
		"two proxies in two headers":         {[]string{"10.0.0.0/8", "192.0.2.1"}, "10.1.2.3:80", []string{"6.6.6.6,198.51.100.1", "192.0.2.1"}, "198.51.100.1"},
		"all of them are trusted":            {[]string{"10.0.0.0/8"}, "10.1.2.3:80", []string{"10.7.7.7, 10.8.8.8"}, "10.7.7.7"},
		"rubbish":                            {[]string{"10.0.0.0/8"}, "10.1.2.3:80", []string{"198.51.100.1, rubbish"}, "10.1.2.3"},
		"rubbish behind a proxy":             {[]string{"10.0.0.0/8"}, "10.1.2.3:80", []string{"198.51.100.1, rubbish, 10.4.4.4"}, "10.4.4.4"},
		"an empty member":                    {[]string{"10.0.0.0/8"}, "10.1.2.3:80", []string{"198.51.100.1,"}, "10.1.2.3"},
		"an empty header":                    {[]string{"10.0.0.0/8"}, "10.1.2.3:80", []string{""}, "10.1.2.3"},
		"with a port":                        {[]string{"10.0.0.0/8"}, "10.1.2.3:80", []string{"198.51.100.1:5555"}, "198.51.100.1"},
		"IPv6":                               {[]string{"fd00::/8"}, "[fd00::1]:80", []string{"2001:db8::1"}, "2001:db8::1"},
		"IPv6 with a port":                   {[]string{"fd00::/8"}, "[fd00::1]:80", []string{"[2001:db8::1]:99"}, "2001:db8::1"},
		"IPv6 in brackets":                   {[]string{"fd00::/8"}, "[fd00::1]:80", []string{"[2001:db8::1]"}, "2001:db8::1"},
		"IPv4 in IPv6, as some listeners do": {[]string{"10.0.0.0/8"}, "[::ffff:10.1.2.3]:80", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		"a proxy's network as IPv4 in IPv6":  {[]string{"::ffff:10.0.0.0/104"}, "10.1.2.3:80", []string{"198.51.100.1"}, "198.51.100.1"},
		"a zone":                             {[]string{"fe80::/10"}, "[fe80::1%eth0]:80", []string{"198.51.100.1"}, "198.51.100.1"},
		"an obfuscated one":                  {[]string{"10.0.0.0/8"}, "10.1.2.3:80", []string{"unknown"}, "10.1.2.3"},
		"a Unix socket":                      {[]string{"10.0.0.0/8"}, "@", []string{"198.51.100.1"}, "invalid IP"},
		"many hops":                          {[]string{"10.0.0.0/8"}, "10.1.2.3:80", []string{"198.51.100.1" + strings.Repeat(", 10.1.1.1", 40)}, "198.51.100.1"},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = tc.peer
			for _, h := range tc.headers {
				r.Header.Add("X-Forwarded-For", h)
			}
			// Others that proxies use mean nothing.
			for _, other := range []string{"X-Real-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "X-Client-Ip"} {
				r.Header.Set(other, "6.6.6.6")
			}
			r.Header.Set("Forwarded", "for=6.6.6.6")
			if got := proxies(t, tc.trusted...).Client(r).String(); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// SE-17: whatever a client puts in front of what the proxy writes, its bucket is the same one.
func FuzzForwardedFor(f *testing.F) {
	p := proxies(f, "10.0.0.0/8")
	f.Add("127.0.0.1")
	f.Add("1.2.3.4, 10.0.0.1")
	f.Add(",,,")
	f.Add("[::1]:80, unknown")
	f.Fuzz(func(t *testing.T, said string) {
		r := &http.Request{RemoteAddr: "10.1.2.3:80", Header: http.Header{"X-Forwarded-For": {said, said + ", 198.51.100.1, 10.4.4.4"}}}
		if got := access.Caller(p.Client(r)); got != "198.51.100.1" {
			t.Fatalf("%q: %s", said, got)
		}
	})
}

func TestWhoHasAWholeNetworkIsOneCaller(t *testing.T) {
	for text, want := range map[string]string{
		"198.51.100.1": "198.51.100.1", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64", "2001:db8:1:2::1": "2001:db8:1:2::/64", "2001:db8:1:3::1": "2001:db8:1:3::/64",
	} {
		if got := access.Caller(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	if got := access.Caller(netip.Addr{}); got != "unknown" {
		t.Error(got)
	}
}

func TestProxiesThatMakeNoSenseAreRefused(t *testing.T) {
	for _, text := range []string{"", "proxy.example.com", "10.0.0.0/33", "0.0.0.0/0", "::/0", "10.1.2.3:80", "fe80::1%eth0", "*"} {
		if _, err := access.ParseProxies([]string{text}); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
