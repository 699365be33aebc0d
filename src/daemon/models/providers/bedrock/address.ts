/** The endpoint of Bedrock's runtime in a region, for a provider without `base_url`. */
export const bedrockBaseUrl = (region: string) =>
  `https://bedrock-runtime.${region}.amazonaws.com${region.startsWith('cn-') ? '.cn' : ''}`
