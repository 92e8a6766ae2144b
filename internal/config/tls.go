package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"

	"golang.org/x/net/idna"
)

// On says whether connections are encrypted at all.
func (t TLS) On() bool { return t.Cert != "" || t.Key != "" || len(t.ACME) > 0 }

// letsEncrypt is where certificates come from unless another authority is named.
const letsEncrypt = "https://acme-v02.api.letsencrypt.org/directory"

// CheckTLS checks that the settings of encryption fit together, and reports all that do not.
func (c *Config) CheckTLS() error {
	t := c.TLS
	var errs []error
	wrong := func(key, format string, args ...any) {
		errs = append(errs, c.wrong(key, format, args...))
	}
	switch {
	case t.Cert != "" && t.Key == "":
		wrong("tls.cert", "needs a key; set tls.key")
	case t.Key != "" && t.Cert == "":
		wrong("tls.key", "needs a certificate; set tls.cert")
	}
	if len(t.ACME) > 0 && (t.Cert != "" || t.Key != "") {
		wrong("tls.acme", "does not go with certificate files; set either tls.acme, or tls.cert and tls.key")
	}
	if len(t.ACME) > 0 {
		// What proves who asks for a certificate must not be readable on the way.
		if u, err := url.Parse(t.ACMEDirectory); err != nil || u.Scheme != "https" || u.Host == "" {
			wrong("tls.acme_directory", "expected an https address, such as %s", letsEncrypt)
		}
		if c.ACMEFolder() == "" {
			wrong("tls.acme", "certificates need a folder, because authorities limit their number per week; set data or tls.acme_cache")
		}
	}
	if t.RedirectAddr != "" && !t.On() {
		wrong("tls.redirect_addr", "redirects need https; set tls.cert and tls.key, or tls.acme")
	}
	return errors.Join(errs...)
}

// ACMEFolder is where certificates are kept; "" is nowhere.
func (c *Config) ACMEFolder() string {
	if c.TLS.ACMECache == "" && c.Data != "" {
		return filepath.Join(c.Data, "acme")
	}
	return c.TLS.ACMECache
}

// checkDomain takes names that an authority gives certificates for by these challenges: no wildcards, no addresses.
func checkDomain(name string) error {
	ascii, err := idna.Lookup.ToASCII(name)
	if err != nil || net.ParseIP(name) != nil || !strings.Contains(strings.Trim(ascii, "."), ".") || strings.HasSuffix(ascii, ".") {
		return fmt.Errorf("%q cannot have a certificate; expected a host name, such as chat.example.com", name)
	}
	return nil
}
