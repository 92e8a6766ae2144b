package telegram

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-telegram/bot/models"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/tool"
)

// Command is an entry of the menu that people see when they type a slash.
type Command struct {
	Name string // such as tape.info
	Help string
	Role tool.Role // that it needs
}

// Bounds of the platform, and of the people with their own menus, each of which is a call at the start.
const (
	maxMenu  = 100
	maxMenus = 50
)

// menu returns the commands of a role, as the platform has them.
func (c *Channel) menu(role tool.Role) []models.BotCommand {
	list := []models.BotCommand{} // not null
	for _, k := range c.s.Commands {
		if k.Role <= role && len(list) < maxMenu {
			list = append(list, models.BotCommand{Command: strings.ReplaceAll(k.Name, ".", "_"), Description: k.Help})
		}
	}
	return list
}

// setMenus sets the menu of everybody, if everybody may give commands, and those of the people on the lists. A menu of everybody that this server has set
// is removed if they may not any more; one from @BotFather stays. The channel works without menus, so a failure is a warning.
func (c *Channel) setMenus(ctx context.Context, k *kernel.Kernel) {
	if len(c.s.Commands) == 0 || k.Settings == nil {
		return
	}
	p := k.Settings.Policy(channel.PolicyQuery{Channel: c.s.Name, Account: c.s.Account, Kind: channel.Direct})
	everybody := params{"scope": params{"type": "default"}}
	if p.CommandMode == channel.CommandsSenders {
		c.callMenu(ctx, "setMyCommands", params{"scope": everybody["scope"], "commands": c.menu(tool.User)}, nil)
	} else {
		var menu []models.BotCommand
		if c.callMenu(ctx, "getMyCommands", everybody, &menu) && len(menu) > 0 && slices.Equal(menu, c.menu(tool.User)) {
			c.callMenu(ctx, "deleteMyCommands", everybody, nil)
		}
	}
	if p.CommandMode == channel.CommandsOff {
		return
	}
	roles := map[int64]tool.Role{}
	for role, list := range map[tool.Role][]string{tool.User: p.Users, tool.Operator: p.Operators, tool.Admin: p.Admins} {
		for _, text := range list {
			if id, err := strconv.ParseInt(text, 10, 64); err == nil && id > 0 {
				roles[id] = max(roles[id], role)
			}
		}
	}
	for n, id := range slices.Sorted(maps.Keys(roles)) {
		if n < maxMenus {
			c.callMenu(ctx, "setMyCommands", params{"scope": params{"type": "chat", "chat_id": id}, "commands": c.menu(roles[id])}, nil)
		}
	}
}

func (c *Channel) callMenu(ctx context.Context, method string, p params, out any) (ok bool) {
	err := c.api.do(ctx, request{method: method, params: p, out: out, harmless: true})
	if err != nil && !platform.Is(err, noChat) { // someone on a list has never written to the bot
		c.Log.WarnContext(ctx, "cannot set the command menu", "method", method, "error", err)
	}
	return err == nil
}
