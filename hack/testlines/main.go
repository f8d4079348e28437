// Command testlines turns the output of go test -json into what a person wants to see, and ends with the plain line
// "N passed, N failed, N skipped".
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// event is one line of go test -json.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

func main() {
	counts := map[string]int{}
	output := map[string][]string{}
	scanner := bufio.NewScanner(os.Stdin)
	const longest = 16 << 20
	scanner.Buffer(nil, longest)
	for scanner.Scan() {
		var e event
		if err := json.Unmarshal(scanner.Bytes(), &e); err != nil {
			fmt.Println(scanner.Text()) // what does not build is no JSON
			continue
		}
		key := e.Package + " " + e.Test
		switch e.Action {
		case "output", "build-output":
			output[key] = append(output[key], e.Output)
			if strings.HasPrefix(e.Output, "» ") {
				fmt.Print(e.Output)
			}
		case "pass", "fail", "skip":
			report(e, counts, output[key])
			delete(output, key)
		}
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", counts["pass"], counts["fail"], counts["skip"])
	if counts["fail"] > 0 || counts["pass"] == 0 {
		os.Exit(1)
	}
}

func report(e event, counts map[string]int, lines []string) {
	if e.Test != "" {
		counts[e.Action]++
	} else if e.Action != "skip" {
		fmt.Printf("%-4s %-70s %6.1fs\n", map[string]string{"pass": "ok", "fail": "FAIL"}[e.Action], e.Package, e.Elapsed)
	}
	if e.Action == "fail" || e.Action == "skip" && e.Test != "" {
		fmt.Print(strings.Join(lines, ""))
	}
	if e.Action == "fail" && e.Test == "" {
		counts["fail"] = max(counts["fail"], 1)
	}
}
