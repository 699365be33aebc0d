package main

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"os"
	"strconv"
	"strings"

	"driver/webhook"
)

func decode(text string) []byte {
	decoded, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return decoded
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), "\t")
		header := ""
		if fields[1] != "-" {
			header = string(decode(fields[1]))
		}
		var secrets []string
		for _, secret := range strings.Split(fields[2], ",") {
			if secret == "-" {
				secrets = append(secrets, os.Getenv("A_VARIABLE_THAT_IS_NOT_SET"))
			} else {
				secrets = append(secrets, string(decode(secret)))
			}
		}
		tolerance, _ := strconv.ParseInt(fields[3], 10, 64)
		now, _ := strconv.ParseInt(fields[4], 10, 64)
		if webhook.Verify(decode(fields[0]), header, secrets, tolerance, now) {
			fmt.Println(1)
		} else {
			fmt.Println(0)
		}
	}
}
