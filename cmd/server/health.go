package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lingserve/lingserve/internal/config"
)

func healthCommand(s streams) *cobra.Command {
	var settings config.Flags
	var base string
	var ready bool
	var timeout time.Duration
	cmd := newCommand("health", func([]string) error {
		path := "/healthz"
		if ready {
			path = "/readyz"
		}
		tr := &http.Transport{DisableKeepAlives: true}
		base = strings.TrimSuffix(base, "/")
		if base == "" {
			c, err := config.Load(&settings, os.Environ())
			if err != nil {
				return err
			}
			base = localServer(c, tr)
		} else if u, err := url.Parse(base); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return usagef("--url: expected an http or https address, such as http://127.0.0.1:8080")
		}
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		if err := checkHealth(ctx, tr, base+path); err != nil {
			return err
		}
		fmt.Fprintln(s.out, "ok")
		return nil
	})
	cmd.Flags().StringVar(&base, "url", "", "`URL` of the server; its certificate must be valid")
	cmd.Flags().BoolVar(&ready, "ready", false, "check whether it accepts new work")
	cmd.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "`TIME` to wait for the answer")
	addSettings(cmd.Flags(), &settings)
	return cmd
}

// localServer returns the address of the server that the settings start on this machine: that of the admin port if there is one, because it
// answers also while clients hold all connections of the other port. The certificate of an encrypted server is not verified: it is for
// other names than this machine's, and the request contains no secret.
func localServer(c *config.Config, tr *http.Transport) string {
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

func checkHealth(ctx context.Context, tr *http.Transport, to string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to, http.NoBody)
	if err != nil {
		return err
	}
	res, err := tr.RoundTrip(req) // a redirect would lead to another server
	if ctx.Err() != nil {
		return fmt.Errorf("%s did not answer in time; check that the server runs, or set a longer --timeout", to)
	}
	if err != nil {
		return fmt.Errorf("cannot connect to %s: %w", to, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered with status %d; expected 200", to, res.StatusCode)
	}
	return nil
}
