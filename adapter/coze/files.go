package coze

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// maxFiles is how many uploaded images are remembered. A conversation sends its images again with each question. Coze keeps them for three months.
const maxFiles = 1024

// errImage is the cause where an image cannot be sent.
var errImage = errors.New("an image that is not sent")

// upload gives an image or a file that is data ("data:image/png;base64,…") to Coze, which takes them by an address or by the id of a file of
// its own, and returns that id. One that was uploaded before is not sent again.
func (p *provider) upload(ctx context.Context, image, name string) (string, error) {
	sum := sha256.Sum256([]byte(image))
	if id, ok := p.files.Get(sum); ok {
		return id, nil
	}
	kind, content, ok := adapter.OpenDataURL(image)
	if !ok || len(content) == 0 {
		return "", &adapter.Error{
			Code: adapter.CodeInvalid, Message: `expected an image or a file in base64, such as "data:image/png;base64,…"`, Cause: errImage,
		}
	}
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, _ := form.CreateFormFile("file", fileName(kind, name)) // in memory: nothing fails
	part.Write(content)
	form.Close()
	header := wire.Accept("application/json")
	header.Set("Content-Type", form.FormDataContentType())
	res, refusal, err := p.Post(ctx, p.chat.JoinPath("..", "..", "v1", "files", "upload").String(), header, body.Bytes())
	if err != nil {
		return "", err
	}
	if refusal != nil {
		return "", p.Refused(refusal)
	}
	defer res.Body.Close()
	said := wire.Said(res.Body)
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	var answer struct {
		Data struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if codeOf(said) != 0 {
		return "", p.Refused(&wire.Refusal{Status: http.StatusOK, Header: res.Header, Body: said})
	}
	if json.Unmarshal(said, &answer) != nil || answer.Data.ID == "" {
		return "", p.NotAnswer("the id of a file", wire.ErrFormat, said)
	}
	p.files.Add(sum, answer.Data.ID)
	return answer.Data.ID, nil
}

// fileName is a name with the end that Coze tells a file's kind by.
func fileName(kind, name string) string {
	if image, ok := strings.CutPrefix(kind, "image/"); ok {
		if !slices.Contains([]string{"png", "gif", "webp", "heic", "heif", "bmp", "tiff"}, image) {
			image = "jpg"
		}
		return "image." + image
	}
	end := path.Ext(name)
	if ends, err := mime.ExtensionsByType(kind); end == "" && err == nil && len(ends) > 0 {
		end = ends[0]
	}
	return "file" + notInNames.ReplaceAllString(end, "") // it is of a stranger's name
}

var notInNames = regexp.MustCompile(`[^.a-zA-Z0-9]`)
