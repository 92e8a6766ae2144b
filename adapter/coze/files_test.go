package coze

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// picture is a question about images.
func picture(images ...string) adapter.Request {
	msg := adapter.Message{Role: adapter.User, Parts: []adapter.Part{{Type: "text", Text: "see"}}}
	for _, image := range images {
		msg.Parts = append(msg.Parts, adapter.Part{Type: "image_url", Image: image})
	}
	return adapter.Request{Messages: []adapter.Message{msg}}
}

func data(kind, content string) string {
	return "data:" + kind + ";base64," + base64.StdEncoding.EncodeToString([]byte(content))
}

// uploads is a transport that remembers the files that were uploaded.
type uploads struct {
	http.RoundTripper
	mu   sync.Mutex
	list []string
}

func (u *uploads) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/base/v1/files/upload" {
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		file, about, err := (&http.Request{Method: r.Method, Header: r.Header, Body: body}).FormFile("file")
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(file)
		if err != nil {
			return nil, err
		}
		u.mu.Lock()
		u.list = append(u.list, about.Filename+" "+string(content)+" "+r.Header.Get("Authorization"))
		u.mu.Unlock()
	}
	return u.RoundTripper.RoundTrip(r)
}

// Images that are data are uploaded, each once, and named by their ids; those with an address are not.
func TestImagesAreUploadedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var body string
		up := &fakeproviders.Server{Script: func(r fakeproviders.Request) fakeproviders.Answer {
			body = string(r.Body)
			return fakeproviders.Answer{Text: "ok"}
		}}
		defer up.Close()
		u := &uploads{RoundTripper: up.Transport()}
		m, _ := newProvider(t, Options{Transport: u, BaseURL: "http://model.test/base", Key: "k"}).Model("m")
		ask := func(images ...string) {
			for _, err := range m.Stream(t.Context(), picture(images...)) {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		first, second := data("image/png", "first"), data("image/jpeg", "second")
		ask(first, "https://a.test/b.png", second)
		want := `"content":"[{\"type\":\"text\",\"text\":\"see\"},{\"type\":\"image\",\"file_id\":\"7500000000000000001\"},` +
			`{\"type\":\"image\",\"file_url\":\"https://a.test/b.png\"},{\"type\":\"image\",\"file_id\":\"7500000000000000002\"}]","content_type":"object_string"`
		if !strings.Contains(body, want) {
			t.Errorf("%s", body)
		}
		ask(second, first) // as in the next question of a conversation
		if !strings.Contains(body, `7500000000000000002\"},{\"type\":\"image\",\"file_id\":\"7500000000000000001`) {
			t.Errorf("%s", body)
		}
		if diff := cmp.Diff([]string{"image.png first Bearer k", "image.jpg second Bearer k"}, u.list); diff != "" {
			t.Error(diff)
		}
	})
}

// MO-25: PDF and other files, and sounds, are uploaded like images, with an end that says what they are.
func TestFilesAndSoundsAreUploaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var body string
		up := &fakeproviders.Server{Script: func(r fakeproviders.Request) fakeproviders.Answer {
			body = string(r.Body)
			return fakeproviders.Answer{Text: "ok"}
		}}
		defer up.Close()
		u := &uploads{RoundTripper: up.Transport()}
		m, _ := newProvider(t, Options{Transport: u, BaseURL: "http://model.test/base", Key: "k"}).Model("m")
		req := adapter.Request{Messages: []adapter.Message{{Role: adapter.User, Parts: []adapter.Part{
			{Type: "text", Text: "see"}, {Type: "file", File: data("application/pdf", "p"), Name: "x\".pdf"}, {Type: "file", File: data("audio/wav", "s"), Name: "s.wav"},
		}}}}
		for _, err := range m.Stream(t.Context(), req) {
			if err != nil {
				t.Fatal(err)
			}
		}
		if !strings.Contains(body, `{\"type\":\"file\",\"file_id\":\"7500000000000000001\"},{\"type\":\"audio\",\"file_id\":\"7500000000000000002\"}`) {
			t.Errorf("%s", body)
		}
		if diff := cmp.Diff([]string{"file.pdf p Bearer k", "file.wav s Bearer k"}, u.list); diff != "" {
			t.Error(diff)
		}
	})
}

// What can go wrong with an image is said, and nothing is asked of the bot then.
func TestAnImageThatCannotBeSent(t *testing.T) {
	good := data("image/png", "x")
	for _, row := range []struct {
		name, image string
		answer      string // to the upload
		status      int
		code, says  string
	}{
		{"no data", "data:image/png;base64", "", 200, adapter.CodeInvalid, `expected an image or a file in base64, such as "data:image/png;base64,…"`},
		{"wrong base64", "data:image/png;base64,!!!", "", 200, adapter.CodeInvalid, `expected an image or a file in base64, such as "data:image/png;base64,…"`},
		{"empty", "data:image/png;base64,", "", 200, adapter.CodeInvalid, `expected an image or a file in base64, such as "data:image/png;base64,…"`},
		{"too large", good, `{"code":4302,"msg":"` + adaptertest.Key + `"}`, 200, adapter.CodeProtocol, "the model's server (coze) refused an image: it may be too large, or of a kind that is not taken"},
		{"the token may not", good, `{"code":4101}`, 403, adapter.CodeAuth, "the model's server (coze) denies this token access to the bot: check the permissions and the workspace of COZE_API_TOKEN"},
		{"a gateway", good, `<html>`, 502, adapter.CodeUnavailable, "the model's server (coze) failed or is overloaded: retry later"},
		{"no id", good, `{"code":0,"data":{}}`, 200, adapter.CodeProtocol, "the model's server (coze) did not answer with the id of a file"},
		{"no JSON", good, `hi`, 200, adapter.CodeProtocol, "the model's server (coze) did not answer with the id of a file"},
	} {
		t.Run(row.name, func(t *testing.T) {
			m, _ := newProvider(t, Options{Key: adaptertest.Key, Transport: trip(func(r *http.Request) (*http.Response, error) {
				if !strings.HasSuffix(r.URL.Path, "/v1/files/upload") {
					t.Errorf("asked %s", r.URL.Path)
				}
				return &http.Response{StatusCode: row.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(row.answer))}, nil
			})}).Model("m")
			for _, err := range m.Stream(t.Context(), picture(row.image)) {
				e, ok := errors.AsType[*adapter.Error](err)
				if !ok || e.Code != row.code || e.Message != row.says || strings.Contains(fmt.Sprint(e.Cause), "CANARY") {
					t.Errorf("%+v, %v", err, errors.Unwrap(err))
				}
			}
		})
	}
}

// AD-01: uploading ends with the context.
func TestUploadingEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := newProvider(t, Options{Transport: trip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})}).Model("m")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		for _, err := range m.Stream(ctx, picture(data("image/png", "x"))) {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v", err)
			}
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("took %v", took)
		}
	})
}
