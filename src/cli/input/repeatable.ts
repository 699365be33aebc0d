import type { Option } from 'commander'

/** Makes an option repeatable. The value of the option is the list of all given values. */
export const repeatable = (option: Option): Option =>
  option.default([]).argParser((value: string, all: string[]) => [...all, value])
