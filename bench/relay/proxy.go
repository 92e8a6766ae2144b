package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"
)

// proxyPart relays bytes with httputil.ReverseProxy to the model at args[0], and prints its address.
func proxyPart(args []string) error {
	target := &url.URL{Scheme: "http", Host: args[0]}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(ln.Addr())
	p := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		FlushInterval: -1,
		Transport:     &http.Transport{MaxIdleConns: 0, MaxIdleConnsPerHost: 10_000, DisableCompression: true},
	}
	// A proxy that passes on a body while the model answers already cuts some streams off (golang/go#40747).
	whole := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		p.ServeHTTP(w, r)
	})
	s := &http.Server{Handler: whole, ReadHeaderTimeout: 10 * time.Second}
	return s.Serve(ln)
}
