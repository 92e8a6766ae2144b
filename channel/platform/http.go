package platform

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"time"

	"github.com/gorilla/websocket"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/internal/egress"
	"github.com/lingserve/lingserve/internal/rawjson"
)

const (
	maxAnswer        = 16 << 20 // bytes of an answer that are read: a hundred messages are far less
	handshakeTimeout = 30 * time.Second
)

// NewClient returns the client for calls of a platform: a copy of given, or a new one if that is nil. It follows no redirects, because one could take the
// token elsewhere. closeIdle closes the connections of a new client.
func NewClient(given *http.Client, proxyEnv bool) (client *http.Client, closeIdle func()) {
	closeIdle = func() {}
	if given == nil {
		transport := egress.NewTransport(proxyEnv)
		transport.MaxIdleConnsPerHost = 16 // for the calls of as many turns at a time
		given, closeIdle = &http.Client{Transport: transport}, transport.CloseIdleConnections
	}
	client = new(*given)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client, closeIdle
}

// Exchange makes one HTTP request with a body, within a time, and passes the answer to read with the beginning of its body, which is all of it but for
// files. An error has no address in it, and is an [*Unreached] if nothing was sent.
func Exchange(
	ctx context.Context, client *http.Client, timeout time.Duration, method, address string, header http.Header, body []byte,
	read func(res *http.Response, text []byte) error,
) error {
	if ctx.Err() != nil {
		return &Unreached{context.Cause(ctx)}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return errors.New("the address is invalid")
	}
	req.Header = header
	res, err := client.Do(req)
	if err != nil {
		return Bare(ctx, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the answer: %w", Bare(ctx, err))
	}
	return read(res, text)
}

// Download writes the file at an address, which needs no other secret than it has in it.
func Download(ctx context.Context, client *http.Client, address string, w io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return errors.New("the address of a file is invalid")
	}
	res, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("load a file: %w", Bare(ctx, err))
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("load a file: status %d", res.StatusCode)
	}
	if _, err = io.Copy(w, res.Body); err != nil {
		return Bare(ctx, err)
	}
	return nil
}

// Form is the body of a call with a file.
type Form struct {
	Fields map[string]any // texts, and what is written as JSON
	Name   string         // of the file's field
	File   string         // the name that people see
	Data   []byte
}

// encode returns the body and its media type.
func (f *Form) encode() (body []byte, contentType string) {
	var b bytes.Buffer // writing to it cannot fail
	w := multipart.NewWriter(&b)
	for name, value := range f.Fields {
		text, ok := value.(string)
		if !ok {
			text = string(rawjson.MustMarshal(value))
		}
		_ = w.WriteField(name, text)
	}
	if part, err := w.CreateFormFile(f.Name, f.File); err == nil {
		_, _ = part.Write(f.Data)
	}
	_ = w.Close()
	return b.Bytes(), w.FormDataContentType()
}

// ReadEvent reads the body of a request by which a platform sends an event. limit returns how many bytes a body behind this header may have; valid is
// false if the request cannot come from the platform. ok is false if the request is refused, which is answered here. Without a need, the body is not read.
func ReadEvent(w http.ResponseWriter, r *http.Request, limit func(http.Header) (maxBytes int64, valid bool), media ...string) (body []byte, ok bool) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return nil, false
	}
	maxBytes, valid := limit(r.Header)
	if !valid {
		w.WriteHeader(http.StatusUnauthorized)
		return nil, false
	}
	body, refusal := channel.ReadBody(w, r, maxBytes, media...)
	if refusal != nil {
		refusal.Header(w.Header())
		w.WriteHeader(refusal.Status)
		return nil, false
	}
	return body, true
}

// Unavailable asks the platform to send an event again later.
func Unavailable(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "5")
	w.WriteHeader(http.StatusServiceUnavailable)
}

// NewDialer returns a dialer for WebSockets, which reaches servers as a client from [NewClient] does. Its connections close when ctx ends.
func NewDialer(ctx context.Context, client *http.Client, proxyEnv bool) *websocket.Dialer {
	transport, ok := client.Transport.(*http.Transport)
	if !ok {
		transport = egress.NewTransport(proxyEnv)
	}
	d := &websocket.Dialer{HandshakeTimeout: handshakeTimeout, Proxy: transport.Proxy}
	if transport.TLSClientConfig != nil {
		d.TLSClientConfig = transport.TLSClientConfig.Clone()
		d.TLSClientConfig.NextProtos = nil // a WebSocket does not begin in HTTP/2
	}
	d.NetDialContext = func(_ context.Context, network, address string) (net.Conn, error) {
		conn, err := transport.DialContext(ctx, network, address)
		if err == nil {
			context.AfterFunc(ctx, func() { conn.Close() })
		}
		return conn, err
	}
	return d
}
