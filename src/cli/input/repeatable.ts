import type { Option } from 'commander'

/** Makes an option repeatable. Its value is the list of all values. */
export const repeatable = (option: Option): Option =>
  option.default([]).argParser((value: string, all: string[]) => [...all, value])
