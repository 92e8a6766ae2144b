package platform

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// maxAnswer bounds what is read of an answer: a hundred messages are far less.
const maxAnswer = 16 << 20

// Exchange makes one HTTP request with a body, within a time, and returns the answer with what it says. An error has no address in it, and is an
// [*Unreached] if nothing was sent.
func Exchange(ctx context.Context, client *http.Client, timeout time.Duration, method, address string, header http.Header, body []byte) (res *http.Response, said []byte, err error) {
	if ctx.Err() != nil {
		return nil, nil, &Unreached{context.Cause(ctx)}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, nil, errors.New("the address is invalid")
	}
	req.Header = header
	if res, err = client.Do(req); err != nil {
		return nil, nil, Bare(ctx, err)
	}
	defer res.Body.Close()
	if said, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer)); err != nil {
		return nil, nil, fmt.Errorf("read the answer: %w", Bare(ctx, err))
	}
	return res, said, nil
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
