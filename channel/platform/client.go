package platform

import (
	"fmt"
	"net/http"
	"path/filepath"

	"github.com/lingserve/lingserve/internal/egress"
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

// OpenMedia returns the store of a channel whose files have names that begin with prefix. dir is the folder of media; "" keeps no files.
func OpenMedia(dir, prefix string, limit int64) (*MediaStore, error) {
	s := &MediaStore{Prefix: prefix, Limit: limit}
	if limit == 0 {
		s.Limit = DefaultMaxMedia
	}
	if dir == "" {
		return s, nil
	}
	var err error
	if s.Dir, err = filepath.Abs(dir); err != nil {
		return nil, fmt.Errorf("the media folder: %w", err)
	}
	return s, nil
}
