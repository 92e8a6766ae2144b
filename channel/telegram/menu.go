package telegram

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/go-telegram/bot/models"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/tool"
)

// Bounds of the platform, and of the people with their own menus, each of which is a call at the start.
const (
	maxMenu  = 100
	maxMenus = 50
)

// setMenus sets the menu of everybody, if everybody may give commands, and those of the people on the lists. Without them, the menu from @BotFather stays.
func (c *Channel) setMenus(ctx context.Context, k *kernel.Kernel) {
	p, ok := c.CommandPolicy(k)
	if !ok || len(c.s.Commands) == 0 || c.s.Menu == "off" {
		return
	}
	if p.CommandMode == channel.CommandsSenders {
		c.setMenu(ctx, params{"type": "default"}, tool.User)
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
			c.setMenu(ctx, params{"type": "chat", "chat_id": id}, roles[id])
		}
	}
}

// setMenu sets the menu of a scope to the commands of a role. The channel works without menus, so a failure is a warning.
func (c *Channel) setMenu(ctx context.Context, scope params, role tool.Role) {
	list := []models.BotCommand{} // not null
	for _, k := range c.s.Commands {
		if k.Role <= role && len(list) < maxMenu {
			list = append(list, models.BotCommand{Command: k.SlashName(), Description: k.Help})
		}
	}
	err := c.api.Do(ctx, platform.Request{Name: "setMyCommands", In: params{"scope": scope, "commands": list}, Harmless: true})
	if err != nil && !platform.Is(err, noChat) { // someone on a list has never written to the bot
		c.Log.WarnContext(ctx, "cannot set the command menu", "error", err)
	}
}
