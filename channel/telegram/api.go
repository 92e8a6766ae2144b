package telegram

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/lingserve/lingserve/channel/platform"
)

// params are the parameters of a call.
type params map[string]any

// Kinds of refusals.
var (
	otherWebhook = &platform.Kind{Text: "this bot has a webhook"}
	notModified  = &platform.Kind{Text: "the message is unchanged"}
	badMarkup    = &platform.Kind{Text: "the platform refused the markup"}
	gone         = &platform.Kind{Text: "the message is deleted"}
	noTopic      = &platform.Kind{Text: "the topic is deleted or closed", Effect: platform.Permanent}
	noChat       = &platform.Kind{Text: "the chat does not exist, or the bot is not in it", Effect: platform.Permanent}
	noRights     = &platform.Kind{Text: "the bot has no right to write there", Effect: platform.Permanent}
	noFile       = &platform.Kind{Text: "the file is deleted or too large"}
	badWebhook   = &platform.Kind{Text: "the address of the webhook was not accepted"}
	tooLate      = &platform.Kind{Text: "the button press is too old to answer"}
	badToken     = &platform.Kind{Text: "the token is not valid; take the one that @BotFather shows", Effect: platform.Permanent}
	blocked      = &platform.Kind{Text: "the bot may not write there: it was blocked, or removed from the chat", Effect: platform.Permanent}
	conflict     = &platform.Kind{Text: "another program reads this bot's updates; stop it, or use another bot"}
)

// phrases are parts of the platform's descriptions, in small letters. A description has one of them at most.
var phrases = map[string]*platform.Kind{
	"can't use getupdates method while webhook is active": otherWebhook, "message is not modified": notModified, "can't parse entities": badMarkup,
	"message to edit not found": gone, "message can't be edited": gone, "message_id_invalid": gone,
	"message thread not found": noTopic, "topic_deleted": noTopic, "topic_closed": noTopic, "topic_id_invalid": noTopic,
	"chat not found": noChat, "peer_id_invalid": noChat, "group chat was deactivated": noChat,
	"not enough rights": noRights, "have no rights": noRights, "chat_write_forbidden": noRights, "chat_restricted": noRights,
	"file is too big": noFile, "wrong file_id": noFile, "invalid file_id": noFile, "file is temporarily unavailable": noFile,
	"bad webhook": badWebhook, "query is too old": tooLate, "query id is invalid": tooLate, "user_is_blocked": blocked,
}

// statuses are the kinds of refusals whose description says nothing.
var statuses = map[int]*platform.Kind{
	http.StatusUnauthorized: badToken, http.StatusForbidden: blocked, http.StatusConflict: conflict,
}

func kindOf(status int, description string) *platform.Kind {
	description = strings.ToLower(description)
	for phrase, kind := range phrases {
		if strings.Contains(description, phrase) {
			return kind
		}
	}
	if status == http.StatusNotFound && description == "not found" { // a token of another form has no address
		return badToken
	}
	return cmp.Or(statuses[status], platform.KindOfStatus(status))
}

// migration is the refusal of a call for a group that has become a supergroup.
type migration struct {
	*platform.Refusal
	to int64
}

func (m *migration) Unwrap() error { return m.Refusal }

// readAnswer reads the answer to a call.
func readAnswer(res *http.Response, text []byte, out any) error {
	var got struct {
		OK          bool            `json:"ok"`
		Result      json.RawMessage `json:"result"`
		Code        int             `json:"error_code"`
		Description string          `json:"description"`
		Parameters  struct {
			MigrateTo  int64 `json:"migrate_to_chat_id"`
			RetryAfter int   `json:"retry_after"`
		} `json:"parameters"`
	}
	if json.Unmarshal(text, &got) != nil {
		if res.StatusCode/100 == 2 {
			return errors.New("the answer is not from a Bot API; check the setting api")
		}
		got.OK, got.Code = false, res.StatusCode // a gateway's page
	}
	if !got.OK {
		e := &platform.Refusal{Kind: kindOf(got.Code, got.Description), Code: fmt.Sprint("status ", got.Code)}
		if e.Kind == platform.RateLimited {
			e.RetryAfter = max(time.Duration(got.Parameters.RetryAfter)*time.Second, time.Second)
		}
		if got.Parameters.MigrateTo != 0 {
			return &migration{e, got.Parameters.MigrateTo}
		}
		return e
	}
	if out != nil && json.Unmarshal(got.Result, out) != nil {
		return errors.New("the answer has an unexpected form")
	}
	return nil
}
