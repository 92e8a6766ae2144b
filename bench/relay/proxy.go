package main

import (
	"fmt"
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
	s := &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second}
	return s.Serve(ln)
}
