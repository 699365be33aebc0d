/** Where Bedrock's runtime is in a region, for a provider that is configured without `base_url`. */
export const bedrockBaseUrl = (region: string) =>
  `https://bedrock-runtime.${region}.amazonaws.com${region.startsWith('cn-') ? '.cn' : ''}`
