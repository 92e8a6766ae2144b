package config

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestEncryptionIsNoAuthentication(t *testing.T) {
	for _, flags := range [][]string{
		{"--tls-cert", "tls.crt", "--tls-key", "tls.key"},
		{"--tls-acme", "chat.example.com"},
	} {
		c := mustLoad(t, "", nil, append(flags, "--addr", "0.0.0.0:443")...)
		if err := c.CheckTLS(); err != nil {
			t.Error(err)
		}
		if err := c.CheckListen(); err == nil || !strings.Contains(err.Error(), "there is no authentication") {
			t.Errorf("%v: it may listen, %v", flags, err)
		}
	}
}

func TestCertificatesAreKeptInTheDataFolderUnlessSaidOtherwise(t *testing.T) {
	for _, tc := range []struct {
		name  string
		flags []string
		want  string
	}{
		{"the default", nil, filepath.Join("data", "acme")},
		{"another data folder", []string{"--data", "/srv/x"}, filepath.Join("/srv/x", "acme")},
		{"a folder of its own", []string{"--tls-acme-cache", "/srv/certs"}, "/srv/certs"},
		{"no data folder", []string{"--database", "memory"}, ""},
		{"no data folder, but one for them", []string{"--database", "memory", "--tls-acme-cache", "/srv/certs"}, "/srv/certs"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := mustLoad(t, "", nil, tc.flags...).ACMEFolder(); got != tc.want {
				t.Errorf("they are in %q, want %q", got, tc.want)
			}
		})
	}
}

func TestNamesOfCertificatesMayHaveAnyLetters(t *testing.T) {
	for name, good := range map[string]bool{
		"chat.example.com": true, "münchen.example": true, "xn--mnchen-3ya.example": true, "CHAT.Example.com": true, "a-b.example.com": true,
		"localhost": false, "chat.example.com.": false, "*.example.com": false, "192.0.2.1": false, "2001:db8::1": false,
		"chat_1.example.com": false, "chat.example.com:443": false, "a b.example.com": false, "https://chat.example.com": false, "-a.example.com": false,
	} {
		if _, err := load(t, "", nil, "--tls-acme="+name); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
	}
}
