package hostpattern

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// ParseInventory reads {"hosts": [...], "groups": {NAME: [...]}, "children": {NAME: [...]}}, every part optional. The
// order of the groups is that of the text.
func ParseInventory(raw []byte) (Inventory, error) {
	var parts struct {
		Hosts    []string            `json:"hosts"`
		Groups   json.RawMessage     `json:"groups"`
		Children map[string][]string `json:"children"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return Inventory{}, fmt.Errorf("inventory: %w", err)
	}
	inventory := Inventory{Hosts: parts.Hosts}
	if len(parts.Groups) > 0 && string(parts.Groups) != "null" {
		decoder := json.NewDecoder(bytes.NewReader(parts.Groups))
		if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
			return Inventory{}, fmt.Errorf("inventory: groups must be an object (%w)", err)
		}
		for decoder.More() {
			name, err := decoder.Token()
			if err != nil {
				return Inventory{}, fmt.Errorf("inventory: %w", err)
			}
			group := Group{Name: fmt.Sprint(name)}
			if err := decoder.Decode(&group.Hosts); err != nil {
				return Inventory{}, fmt.Errorf("inventory: hosts of group %s: %w", name, err)
			}
			group.Children = parts.Children[group.Name]
			delete(parts.Children, group.Name)
			inventory.Groups = append(inventory.Groups, group)
		}
	}
	for name, children := range parts.Children { // a group that only has children; with any, order no longer counts
		inventory.Groups = append(inventory.Groups, Group{Name: name, Children: children})
	}
	return inventory, nil
}
