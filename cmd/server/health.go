package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/lingserve/lingserve/internal/config"
)

func healthCommand(args []string, _ io.Reader, stdout, stderr io.Writer) int {
	set, settings := newFlags("health")
	at := set.String("url", "", "`URL` of the server; its certificate must be valid")
	ready := set.Bool("ready", false, "check whether it accepts new work")
	timeout := set.Duration("timeout", 3*time.Second, "`TIME` to wait for the answer (3s)")
	rest, status, ok := arguments(set, args, stdout, stderr)
	switch {
	case !ok:
		return status
	case len(rest) > 0:
		return usage(stderr, "health", "unexpected argument %q", rest[0])
	}
	path := "/healthz"
	if *ready {
		path = "/readyz"
	}
	tr := &http.Transport{DisableKeepAlives: true}
	base := strings.TrimSuffix(*at, "/")
	if base == "" {
		c, err := config.Load(settings, os.Environ())
		if err != nil {
			return fail(stderr, err)
		}
		base = ownServer(c, tr)
	} else if u, err := url.Parse(base); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return usage(stderr, "health", "--url: expected an http or https address, such as http://127.0.0.1:8080")
	}
	ctx, cancel := context.WithTimeout(context.Background(), *timeout)
	defer cancel()
	if err := askHealth(ctx, tr, base+path); err != nil {
		return fail(stderr, err)
	}
	fmt.Fprintln(stdout, "ok")
	return exitOK
}

// ownServer returns the address of the server that the settings start on this machine: that of the admin port if there is one, because it
// answers also while clients hold all connections of the other port. The certificate of an encrypted server is not verified: it is for
// other names than this machine's, and the request contains no secret.
func ownServer(c *config.Config, tr *http.Transport) string {
	listen, encrypted := c.Addr, c.TLS.On()
	if c.Admin.Addr != "" {
		listen, encrypted = c.Admin.Addr, false
	}
	host, port, _ := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip != nil && ip.To4() == nil {
			host = "::1"
		}
	}
	addr := net.JoinHostPort(host, port)
	if !encrypted {
		return "http://" + addr
	}
	tr.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	if len(c.TLS.ACME) > 0 {
		tr.TLSClientConfig.ServerName = c.TLS.ACME[0]
	}
	return "https://" + addr
}

func askHealth(ctx context.Context, tr *http.Transport, to string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to, http.NoBody)
	if err != nil {
		return err
	}
	res, err := tr.RoundTrip(req) // a redirect would lead to another server
	if ctx.Err() != nil {
		return fmt.Errorf("%s did not answer in time; check that the server runs, or set a longer --timeout", to)
	}
	if err != nil {
		if e, ok := errors.AsType[*net.OpError](err); ok {
			err = e.Err
		}
		return fmt.Errorf("cannot connect to %s: %w", to, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered with status %d; expected 200", to, res.StatusCode)
	}
	return nil
}
