package platform

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/lingserve/lingserve/internal/rawjson"
)

const callTimeout = 30 * time.Second

// API makes the calls of a platform's HTTP API. Its errors have no address in them.
type API struct {
	Platform string // for errors
	Client   *http.Client
	Base     string      // of addresses; it may have a token in it
	Header   http.Header // of each call; nil
	// Read reads an answer into the Out of its call, or returns a [*Refusal]. text is the beginning of a file, or all of another answer.
	Read func(res *http.Response, text []byte, out any) error
	// Fail is called with a refusal of the kind Fatal, after which no call can work.
	Fatal *Kind
	Fail  func(error)
}

// Request is a call.
type Request struct {
	Name     string        // what is done, for errors
	Method   string        // "" is POST
	Path     string        // "" is a slash and Name
	Token    string        // of this call; "" is none
	In       any           // is written as JSON, or is a *[Form]; nil: no body
	Out      any           // for [API].Read; nil
	Timeout  time.Duration // 0 is 30 s
	Harmless bool          // as in [Repeat]
	Brief    bool          // as in [Repeat]
}

// Do makes a call, and repeats it as [Repeat] does.
func (a *API) Do(ctx context.Context, r Request) error {
	return Repeat(ctx, r.Harmless, r.Brief, func(ctx context.Context) error { return a.Attempt(ctx, r) })
}

// Attempt makes one attempt of a call.
func (a *API) Attempt(ctx context.Context, r Request) error {
	header, body := http.Header{}, []byte(nil)
	maps.Copy(header, a.Header)
	if r.Token != "" {
		header.Set("Authorization", "Bearer "+r.Token)
	}
	if form, ok := r.In.(*Form); ok {
		var contentType string
		body, contentType = form.encode()
		header.Set("Content-Type", contentType)
	} else if r.In != nil { // not every platform takes an empty JSON
		body = rawjson.MustMarshal(r.In)
		header.Set("Content-Type", "application/json; charset=utf-8")
	}
	method, address := cmp.Or(r.Method, http.MethodPost), a.Base+cmp.Or(r.Path, "/"+r.Name)
	read := func(res *http.Response, text []byte) error { return a.Read(res, text, r.Out) }
	err := Exchange(ctx, a.Client, cmp.Or(r.Timeout, callTimeout), method, address, header, body, read)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s: %s: %w", a.Platform, r.Name, err)
	if Is(err, a.Fatal) {
		a.Fail(err)
	}
	return err
}
