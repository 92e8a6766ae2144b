package telegram

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-telegram/bot/models"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/tool"
)

// Command is an entry of the menu that people see when they type a slash.
type Command struct {
	Name string // such as tape.info
	Help string
	Role tool.Role // that it needs
}

// Bounds of a menu.
const (
	maxMenu        = 100
	maxDescription = 256 // UTF-16 code units
	maxMenus       = 50  // people with a menu of their own: each is a call at the start
)

// scope says whose menu it is.
type scope struct {
	Type   string `json:"type"`
	ChatID int64  `json:"chat_id,omitempty"`
}

// menuCall is a call that reads, writes or removes a menu. (The library's scopes are written by its own client only.)
type menuCall struct {
	Commands []models.BotCommand `json:"commands,omitempty"`
	Scope    scope               `json:"scope"`
}

// menu are the commands that somebody with a role may give, as the platform has them.
func (c *Channel) menu(role tool.Role) (list []models.BotCommand) {
	for _, k := range c.commands {
		if k.Role > role || len(list) == maxMenu {
			continue
		}
		help := head(k.Help, maxDescription)
		if name := strings.ReplaceAll(k.Name, ".", "_"); help != "" {
			list = append(list, models.BotCommand{Command: name, Description: help})
		}
	}
	return list
}

// setMenus shows the menus to those who may give commands in private chats: to everybody, or to those on the lists. A menu that this server
// has set for everybody is removed when that is not so any more; one that somebody has made at @BotFather stays. The channel works without
// menus, so a failure is a warning.
func (c *Channel) setMenus(ctx context.Context, k *channel.Kernel) {
	if len(c.commands) == 0 || k.Settings == nil {
		return
	}
	call := func(method string, in menuCall, out any) bool {
		err := c.api.do(ctx, request{method: method, in: &in, out: out, harmless: true})
		if err != nil && !is(err, noChat) { // somebody on a list has never written to the bot
			c.log.WarnContext(ctx, "cannot set the command menu", "channel", c.name, "method", method, "error", err)
		}
		return err == nil
	}
	p := k.Settings.Policy(channel.PolicyQuery{Channel: c.name, Account: c.account, Kind: channel.Direct})
	everybody := scope{Type: "default"}
	if p.CommandMode == channel.CommandsSenders {
		call("setMyCommands", menuCall{c.menu(tool.User), everybody}, nil)
	} else {
		var there []models.BotCommand
		if call("getMyCommands", menuCall{Scope: everybody}, &there) && len(there) > 0 && slices.Equal(there, c.menu(tool.User)) {
			call("deleteMyCommands", menuCall{Scope: everybody}, nil)
		}
	}
	if p.CommandMode == channel.CommandsOff {
		return
	}
	roles := map[int64]tool.Role{}
	for _, list := range []struct {
		role tool.Role
		ids  []string
	}{{tool.User, p.Users}, {tool.Operator, p.Operators}, {tool.Admin, p.Admins}} {
		for _, text := range list.ids {
			if id, err := strconv.ParseInt(text, 10, 64); err == nil && id > 0 {
				if _, known := roles[id]; known || len(roles) < maxMenus {
					roles[id] = list.role
				}
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(roles)) {
		call("setMyCommands", menuCall{c.menu(roles[id]), scope{Type: "chat", ChatID: id}}, nil)
	}
}
