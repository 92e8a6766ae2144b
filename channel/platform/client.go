package platform

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

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

// CheckBase checks the setting api and returns it without a slash at its end. example is part of the error.
func CheckBase(api, example string) (string, error) {
	base := strings.TrimRight(api, "/")
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("api is not an address; expected one such as " + example)
	}
	return base, nil
}

// CheckChoice checks a setting that has a few values.
func CheckChoice(setting, value string, choices ...string) error {
	if slices.Contains(choices, value) {
		return nil
	}
	last := len(choices) - 1
	return fmt.Errorf("%s is %q; expected %s or %s", setting, value, strings.Join(choices[:last], ", "), choices[last])
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
